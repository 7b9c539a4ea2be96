((words) @injection.content
 (#set! injection.language "c++")
 (#set! injection.combined))
