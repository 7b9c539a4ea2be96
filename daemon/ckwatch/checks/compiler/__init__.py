"""From a compiler's messages to diagnostics at the places where the mistakes were made, in steps:

`clarify` puts a message where its mistake is (the brace that is missing, the macro that has the wrong name), `locate`
finds its place in a template, a kernel file or a header of the workspace, `diagnose` makes a diagnostic of it, with
`fixes`, and `joining` keeps those that do not only follow from others, as `consequences` tells by their texts. Each is
a function of a message and of the `sources` around it.
"""
