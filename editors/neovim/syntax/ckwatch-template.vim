" C++ with Jinja in it, where no tree-sitter parser is installed.
if exists('b:current_syntax')
  finish
endif

runtime! syntax/cpp.vim
unlet! b:current_syntax

syntax cluster ckwatchJinja contains=ckwatchJinjaString,ckwatchJinjaNumber,ckwatchJinjaKeyword,ckwatchJinjaConstant,ckwatchJinjaFilter
syntax region ckwatchJinjaStatement matchgroup=ckwatchJinjaMark start=/{%[-+]\?/ end=/[-+]\?%}/ contains=@ckwatchJinja containedin=ALLBUT,ckwatchJinjaComment,@ckwatchJinja,ckwatchJinjaStatement,ckwatchJinjaOutput
syntax region ckwatchJinjaOutput matchgroup=ckwatchJinjaMark start=/{{[-+]\?/ end=/[-+]\?}}/ contains=@ckwatchJinja containedin=ALLBUT,ckwatchJinjaComment,@ckwatchJinja,ckwatchJinjaStatement,ckwatchJinjaOutput
syntax region ckwatchJinjaComment start=/{#/ end=/#}/ contains=@Spell,cTodo containedin=ALLBUT,@ckwatchJinja,ckwatchJinjaStatement,ckwatchJinjaOutput

syntax region ckwatchJinjaString start=/"/ skip=/\\./ end=/"/ contained
syntax region ckwatchJinjaString start=/'/ skip=/\\./ end=/'/ contained
syntax match ckwatchJinjaNumber /\<\d\+\(\.\d\+\)\?\>/ contained
syntax match ckwatchJinjaFilter /|\s*\zs\h\w*/ contained
syntax keyword ckwatchJinjaConstant true false none True False None loop self super caller varargs kwargs contained
syntax keyword ckwatchJinjaKeyword if elif else endif for endfor in not and or is recursive contained
syntax keyword ckwatchJinjaKeyword set endset block endblock extends include import from as with endwith without context contained
syntax keyword ckwatchJinjaKeyword macro endmacro call endcall filter endfilter do raw endraw ignore missing scoped required contained

highlight default link ckwatchJinjaMark PreProc
highlight default link ckwatchJinjaKeyword Statement
highlight default link ckwatchJinjaConstant Constant
highlight default link ckwatchJinjaFilter Function
highlight default link ckwatchJinjaString String
highlight default link ckwatchJinjaNumber Number
highlight default link ckwatchJinjaComment Comment

syntax sync minlines=200
let b:current_syntax = 'ckwatch-template'
