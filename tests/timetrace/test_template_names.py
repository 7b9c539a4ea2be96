"""Names of instances without their arguments."""

from __future__ import annotations

import pytest

from ckwatch.timetrace.template_names import template_name

ROWS = {
    "main": "main",
    "ck::Tuple<int, X<2>>::At<1>": "ck::Tuple::At",
    "ck::Tuple<>": "ck::Tuple",
    "std::pair<std::vector<int>, char>": "std::pair",
    # Brackets in a name.
    "operator<<int>": "operator<",
    "operator<": "operator<",
    "operator<<<int>": "operator<<",
    "std::operator<<": "std::operator<<",
    "a::operator<=><b<1>>": "a::operator<=>",
    "a<1>::operator->": "a::operator->",
    "a<1>::operator>>=<2>": "a::operator>>=",
    "a<1>::operator()<(lambda at /p/x.hpp:1:2)>": "a::operator()",
    "a<1>::operator[]<3>": "a::operator[]",
    "a<1>::operator bool": "a::operator bool",
    "cooperator<1>": "cooperator",
    # Arguments that hold brackets.
    "X<(1 > 2), 3>::f": "X::f",
    "X<(sizeof(a) < 4), Y<(b >> 2)>>::f": "X::f",
    "X<int (*)(Y<1>)>::f<int[2]>": "X::f",
    "X<Y{1, {2}}>::f": "X::f",
    "X<decltype(a->b)>::f": "X::f",
    "X<'<', '\\'', \">)\">::f": "X::f",
    "X<a->b>::f": "X::f",
    # Functions and lambdas around.
    "ck::f4(float32_t, float)::(lambda)::operator()<ck::integral_constant<int, 31>>": "ck::f4::(lambda)",
    "M<T<int>>::M(const T<int> &)::(lambda)::operator()<N<0>>": "M::M::(lambda)",
    "f<1>(N<0>)::(lambda)::operator()()::(lambda)::operator()(N<1>)::(lambda)::operator()": "f::(lambda)::(lambda)::(lambda)",
    "X<1>::f() const::(anonymous class)::g<2>": "X::f::(anonymous class)::g",
    "(anonymous namespace)::f<1>": "(anonymous namespace)::f",
    "std::basic_string<char>::(anonymous union at /usr/x.h:215:7)": "std::basic_string::(anonymous union)",
    "(lambda at /a b/x.hpp:1:2)": "(lambda)",
    # Cut off.
    "ck::Tuple<int, X<2": "ck::Tuple",
    "f<1>::g(int, X<": "f::g",
    "": "",
}


@pytest.mark.parametrize(("name", "template"), ROWS.items())
def test_template_name(name: str, template: str) -> None:
    assert template_name(name) == template
