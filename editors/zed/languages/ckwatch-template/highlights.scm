[ "{{" "{{-" "}}" "-}}" "{%" "{%-" "%}" "-%}" ] @preproc
(statement) @keyword
(string_literal) @string
(identifier) @variable
(comment) @comment
