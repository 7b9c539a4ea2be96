(comment) @comment
[ (bare_key) (quoted_key) ] @property
(string) @string
[ (integer) (float) ] @number
(boolean) @boolean
[ "." "," "=" ] @punctuation.delimiter
[ "[" "]" "[[" "]]" "{" "}" ] @punctuation.bracket
