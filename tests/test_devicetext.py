"""What of a source the device pass can see."""

from __future__ import annotations

import pytest

from ckwatch.devicetext import device_text

GUARDED = """\
#include <a.h>
#if !defined(__HIP_DEVICE_COMPILE__)
int host() {
#if X
  return 1;
#endif
}
#else
int device();
#endif
__global__ void kernel();
"""


def test_comments_within_a_line_are_no_doubt() -> None:
    assert "host" not in device_text("int /* a */ x;\n#if !defined(__HIP_DEVICE_COMPILE__)\nint host;\n#endif\n")


def test_what_is_the_hosts_alone_is_gone_and_lines_stay() -> None:
    seen = device_text(GUARDED)
    assert seen.count("\n") == GUARDED.count("\n")
    assert "host()" not in seen
    assert "return 1" not in seen
    assert [line for line in seen.split("\n") if line] == [
        "#include <a.h>",
        "#if !defined(__HIP_DEVICE_COMPILE__)",
        "#else",
        "int device();",
        "#endif",
        "__global__ void kernel();",
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "#if !defined(__HIP_DEVICE_COMPILE__)",
        "#if !defined __HIP_DEVICE_COMPILE__  // host",
        "# if ! defined ( __HIP_DEVICE_COMPILE__ )",
        "#ifndef __HIP_DEVICE_COMPILE__",
    ],
)
def test_ways_to_say_it(condition: str) -> None:
    assert "host" not in device_text(f"{condition}\nint host;\n#endif\n").replace("// host", "")


@pytest.mark.parametrize(
    "source",
    [
        "int host;\n",
        "#if defined(__HIP_DEVICE_COMPILE__)\nint device;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__) && X\nint both;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__) || X\nint both;\n#endif\n",
        "#ifdef __HIP_DEVICE_COMPILE__\nint device;\n#else\nint host;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__)\nint a;\n#elif X\nint b;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__)\nint unclosed;\n",
        "#endif\n#if !defined(__HIP_DEVICE_COMPILE__)\nint a;\n#endif\n",
        "/*\n#if !defined(__HIP_DEVICE_COMPILE__)\n*/ int seen; /*\n#endif\n*/\n",
        'auto text = R"(\n#if !defined(__HIP_DEVICE_COMPILE__)\n)"; int seen; auto more = R"(\n#endif\n)";\n',
        "#if !defined(__HIP_DEVICE_COMPILE__) \\\n || X\nint both;\n#endif\n",
    ],
)
def test_what_is_in_doubt_counts(source: str) -> None:
    assert device_text(source) == source
