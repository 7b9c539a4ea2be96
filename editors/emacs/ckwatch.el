;;; ckwatch.el --- Kernel templates: errors and timings in place  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT
;; Version: 0.2.0
;; Package-Requires: ((emacs "29.1"))
;; Keywords: c, languages, tools

;;; Commentary:

;; Major modes for ckwatch's kernel templates (C++ in Jinja) and kernel files (TOML), and the language server
;; `ckwatch lsp' for Eglot and, where it is installed, lsp-mode.
;;
;;     (require 'ckwatch)
;;     (add-hook 'ckwatch-template-mode-hook #'eglot-ensure)
;;     (add-hook 'ckwatch-kernel-mode-hook #'eglot-ensure)
;;
;; Everything that is shown comes from the server.

;;; Code:

(require 'cl-lib)
(require 'conf-mode)
(require 'project)
(require 'seq)
(require 'url-util)

(defgroup ckwatch nil
  "Kernel templates with errors and timings in place."
  :group 'tools
  :prefix "ckwatch-")

(defcustom ckwatch-command '("ckwatch" "lsp")
  "The command, with its arguments, that starts the language server."
  :type '(repeat string))

(defcustom ckwatch-messages-at-end-of-line 'short
  "What `flymake-show-diagnostics-at-end-of-line' is in ckwatch's modes (Emacs 30)."
  :type '(choice (const :tag "Nothing" nil) (const :tag "The gravest" short) (const :tag "All" t)))

;;;; Workspaces

(defun ckwatch-workspace (&optional file)
  "The workspace folder of FILE, by default the buffer's: where `ckwatch.toml' is.
The folder of a `ckwatch:' URI is a part of it."
  (let ((file (or file buffer-file-name default-directory)))
    (cond ((string-match "\\`ckwatch://.*[?&]folder=\\([^&]*\\)" file)
           (file-name-as-directory (decode-coding-string (url-unhex-string (match-string 1 file)) 'utf-8)))
          (t (when-let* ((found (locate-dominating-file file "ckwatch.toml")))
               (expand-file-name found))))))

(defun ckwatch-project (_directory)
  "For the language server alone, a workspace is a project."
  (when (and (bound-and-true-p eglot-lsp-context)
             (derived-mode-p 'ckwatch-template-mode 'ckwatch-kernel-mode 'ckwatch-source-mode 'ckwatch-isa-mode))
    (when-let* ((root (ckwatch-workspace)))
      (cons 'ckwatch root))))

(cl-defmethod project-root ((project (head ckwatch)))
  "The workspace folder of PROJECT."
  (cdr project))

(add-hook 'project-find-functions #'ckwatch-project)

;;;; Major modes

(defconst ckwatch--c++-keywords
  (regexp-opt
   '("alignas" "alignof" "auto" "bool" "break" "case" "char" "class" "const" "constexpr" "continue" "decltype" "default"
     "delete" "do" "double" "else" "enum" "explicit" "extern" "false" "float" "for" "friend" "if" "inline" "int" "long"
     "namespace" "new" "noexcept" "nullptr" "operator" "private" "protected" "public" "return" "short" "signed" "sizeof"
     "static" "static_assert" "static_cast" "struct" "switch" "template" "this" "true" "typedef" "typename" "union"
     "unsigned" "using" "virtual" "void" "volatile" "while" "__device__" "__global__" "__host__" "__shared__")
   'symbols))

(defconst ckwatch--jinja-keywords
  (regexp-opt
   '("if" "elif" "else" "endif" "for" "endfor" "in" "not" "and" "or" "is" "recursive" "set" "endset" "block" "endblock"
     "extends" "include" "import" "from" "as" "with" "endwith" "without" "context" "macro" "endmacro" "call" "endcall"
     "filter" "endfilter" "do" "raw" "endraw" "ignore" "missing")
   'symbols))

(defun ckwatch--jinja-keyword (limit)
  "Find the next keyword before LIMIT within `{% … %}' or `{{ … }}'."
  (let (found)
    (while (and (not found) (re-search-forward ckwatch--jinja-keywords limit t))
      (let ((end (match-data)))
        (setq found (save-excursion
                      (goto-char (match-beginning 0))
                      (and (re-search-backward "{[%{]\\|[%}]}" (max (point-min) (- (point) 2000)) t)
                           (eq (char-after) ?{))))
        (set-match-data end)))
    found))

(defvar ckwatch-template-font-lock-keywords
  `(("^[ \t]*#[ \t]*[a-z]+" . font-lock-preprocessor-face)
    (,ckwatch--c++-keywords . font-lock-keyword-face)
    ("\\_<[0-9]+\\(?:\\.[0-9]+\\)?[fuUlL]*\\_>" . 'font-lock-number-face)
    ("{[%{][-+]?\\|[-+]?[%}]}" 0 font-lock-preprocessor-face t)
    (ckwatch--jinja-keyword 0 font-lock-builtin-face t)
    ("{[%{][^}]*?|[ \t]*\\(\\(?:\\sw\\|\\s_\\)+\\)" 1 'font-lock-function-call-face t))
  "What is highlighted in C++ with Jinja in it.")

(unless (facep 'font-lock-number-face)  ; Emacs 29 has them; older ones would fail later and less clearly
  (error "ckwatch.el needs Emacs 29"))

(defvar ckwatch-template-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?' "\"" table)
    (modify-syntax-entry ?% "." table)
    (dolist (operator '(?< ?> ?= ?+ ?- ?& ?|))
      (modify-syntax-entry operator "." table))
    table)
  "C++'s syntax; Jinja's comments are marked by `syntax-propertize-function'.")

(defvar ckwatch-template-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-r") #'ckwatch-run)
    (define-key map (kbd "C-c C-b") #'ckwatch-build)
    (define-key map (kbd "C-c C-s") #'ckwatch-source)
    (define-key map (kbd "C-c C-a") #'ckwatch-isa)
    (define-key map (kbd "C-c C-u") #'ckwatch-units)
    map)
  "Keys of the actions that other editors show as lenses.")

(defun ckwatch--prepare ()
  "What ckwatch's modes have in common."
  (setq-local mode-line-process '(:eval (ckwatch-mode-line)))
  (setq-local flymake-show-diagnostics-at-end-of-line ckwatch-messages-at-end-of-line))

;;;###autoload
(define-derived-mode ckwatch-template-mode prog-mode "CK-Template"
  "Kernel templates: C++ in Jinja.

CC mode would read Jinja's braces as C++, so this one is a mode of its own."
  (setq-local comment-start "// " comment-end "" comment-start-skip "\\(?://+\\|/\\*+\\)\\s *")
  (setq-local font-lock-defaults '(ckwatch-template-font-lock-keywords))
  (setq-local syntax-propertize-function
              (syntax-propertize-rules
               ("\\({\\)#" (1 "!"))
               ("#\\(}\\)" (1 "!"))))
  (setq-local indent-line-function #'indent-relative)
  (ckwatch--prepare))

(defvar ckwatch-kernel-mode-map (copy-keymap ckwatch-template-mode-map)
  "Keys of the actions that other editors show as lenses.")

;;;###autoload
(define-derived-mode ckwatch-kernel-mode conf-toml-mode "CK-Kernel"
  "Kernel files and settings of ckwatch: TOML."
  (ckwatch--prepare))

(define-derived-mode ckwatch-source-mode ckwatch-template-mode "CK-Source"
  "The generated source of a unit; the server says what is in it."
  (setq buffer-read-only t))

(define-derived-mode ckwatch-isa-mode asm-mode "CK-ISA"
  "The listing of a compiled unit; the server says what is in it."
  (setq buffer-read-only t)
  (ckwatch--prepare))

;;;###autoload
(progn
  (add-to-list 'auto-mode-alist '("\\.\\(?:hip\\|cu\\|cpp\\)\\.j2\\'" . ckwatch-template-mode))
  (add-to-list 'auto-mode-alist '("\\.kernel\\.toml\\'" . ckwatch-kernel-mode))
  (add-to-list 'auto-mode-alist '("/ckwatch\\.toml\\'" . ckwatch-kernel-mode)))

(defun ckwatch--included-file-p ()
  "Whether this is another Jinja file of a workspace: an included one, or macros."
  (and buffer-file-name
       (string-suffix-p ".j2" buffer-file-name)
       (locate-dominating-file buffer-file-name "ckwatch.toml")))

(add-to-list 'magic-mode-alist '(ckwatch--included-file-p . ckwatch-template-mode))

;;;; What the daemon is doing

(defvar ckwatch--status (make-hash-table :test #'equal)
  "Workspace folder → what the server said last.")

(defun ckwatch--set-status (folder health quiescent message)
  "Keep for FOLDER the daemon's HEALTH, whether it is QUIESCENT, and its MESSAGE."
  (puthash (file-name-as-directory folder)
           (concat (pcase health ("error" " ✗") ("warning" " !"))
                   (unless (eq quiescent t) " …")
                   (unless (member message '(nil "")) (concat " " message)))
           ckwatch--status)
  (force-mode-line-update t))

(defun ckwatch-mode-line ()
  "What the daemon of this buffer's workspace is doing."
  (or (when-let* ((root (ckwatch-workspace))) (gethash root ckwatch--status)) ""))

;;;; Commands

(defvar eglot-server-programs)
(declare-function eglot-current-server "eglot")
(declare-function eglot-managed-p "eglot")
(declare-function eglot-inlay-hints-mode "eglot")
(declare-function eglot-path-to-uri "eglot")
(declare-function eglot-uri-to-path "eglot")
(declare-function eglot--path-to-uri "eglot")
(declare-function eglot--uri-to-path "eglot")
(declare-function jsonrpc-request "jsonrpc")
(declare-function jsonrpc-async-request "jsonrpc")
(declare-function lsp-request "lsp-mode")
(declare-function lsp-request-async "lsp-mode")
(declare-function lsp-workspaces "lsp-mode")
(declare-function lsp-register-client "lsp-mode")
(declare-function lsp-stdio-connection "lsp-mode")
(declare-function make-lsp-client "lsp-mode")
(declare-function lsp--path-to-uri "lsp-mode")

(defun ckwatch--uri ()
  "The URI of the buffer's file."
  (cond ((null buffer-file-name) nil)
        ((string-prefix-p "ckwatch://" buffer-file-name) buffer-file-name)
        ((fboundp 'eglot-path-to-uri) (eglot-path-to-uri buffer-file-name))
        ((fboundp 'eglot--path-to-uri) (eglot--path-to-uri buffer-file-name))
        (t (lsp--path-to-uri buffer-file-name))))

(defun ckwatch--path (uri)
  "The file name of URI."
  (if (fboundp 'eglot-uri-to-path) (eglot-uri-to-path uri) (eglot--uri-to-path uri)))

(defun ckwatch--server ()
  "The Eglot server of this buffer or of its workspace, nil without one."
  (or (and (fboundp 'eglot-current-server) (eglot-current-server))
      (when-let* ((root (ckwatch-workspace)))
        (seq-some (lambda (buffer)
                    (with-current-buffer buffer
                      (and (equal (ckwatch-workspace) root) (fboundp 'eglot-current-server) (eglot-current-server))))
                  (buffer-list)))))

(defun ckwatch--request (command argument)
  "The parameters of a request for ckwatch.COMMAND with ARGUMENT, a property list."
  (list :command (concat "ckwatch." command) :arguments (vector (or argument (make-hash-table)))))

(defun ckwatch--with-lsp-mode-p ()
  "Whether lsp-mode serves this buffer."
  (and (fboundp 'lsp-workspaces) (lsp-workspaces)))

(defun ckwatch--no-server ()
  "Say that there is no server."
  (user-error "No language server of ckwatch runs here: M-x eglot"))

(defun ckwatch-execute (command &rest argument)
  "Execute ckwatch.COMMAND at the server and return its result.
ARGUMENT is a property list."
  (let ((request (ckwatch--request command argument)))
    (cond ((ckwatch--server) (jsonrpc-request (ckwatch--server) :workspace/executeCommand request :timeout 60))
          ((ckwatch--with-lsp-mode-p) (lsp-request "workspace/executeCommand" request))
          (t (ckwatch--no-server)))))

(defun ckwatch-start (command &rest argument)
  "Have ckwatch.COMMAND executed at the server; nobody waits for its result.
ARGUMENT is a property list.  What the server shows while it executes may need
requests of its own, which is why these commands do not wait."
  (let ((request (ckwatch--request command argument)))
    (cond ((ckwatch--server)
           (jsonrpc-async-request (ckwatch--server) :workspace/executeCommand request
                                  :success-fn #'ignore
                                  :error-fn (lambda (problem) (message "ckwatch: %s" (plist-get problem :message)))
                                  :timeout-fn #'ignore))
          ((ckwatch--with-lsp-mode-p) (lsp-request-async "workspace/executeCommand" request #'ignore))
          (t (ckwatch--no-server)))))

(defun ckwatch--here (&rest more)
  "The argument that names this buffer's document.
MORE is a property list; what is empty in it is left out."
  (append (when-let* ((uri (ckwatch--uri))) (list :uri uri))
          (cl-loop for (key value) on more by #'cddr
                   unless (member value '(nil "")) append (list key value))))

(defun ckwatch--show-text (title result)
  "Show the text of RESULT, if there is one, in a buffer named after TITLE."
  (let ((text (cond ((stringp result) result)
                    ((listp result) (or (plist-get result :text) (plist-get result :log))))))
    (when (and (stringp text) (not (string-empty-p text)))
      (with-current-buffer (get-buffer-create (format "*ckwatch %s*" title))
        (let ((inhibit-read-only t))
          (erase-buffer)
          (insert text)
          (goto-char (point-max)))
        (special-mode)
        (display-buffer (current-buffer))))))

(defun ckwatch--read-unit ()
  "With a prefix argument, ask for a unit; nil means the active instance."
  (when current-prefix-arg
    (completing-read "Unit: " (mapcar (lambda (unit) (plist-get unit :id)) (ckwatch-execute "units")))))

(defun ckwatch-run (&optional unit)
  "Build and time UNIT, by default the active instance.
With a prefix argument, ask for it."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "run" (ckwatch--here :unit unit)))

(defun ckwatch-build (&optional unit)
  "Build UNIT, by default the active instance.
With a prefix argument, ask for it."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "build" (ckwatch--here :unit unit)))

(defun ckwatch-verify (&optional unit)
  "Build UNIT, by default the active instance, and verify it without a GPU.
With a prefix argument, ask for it."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "verify" (ckwatch--here :unit unit)))

(defun ckwatch-tune (&optional unit)
  "Find the best instance of UNIT's kernel for each of its shapes.
By default the kernel is this buffer's; with a prefix argument, ask for a
unit.  While that goes on, another call asks whether it should stop."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "tune" (ckwatch--here :unit unit)))

(defun ckwatch-cancel (&optional unit)
  "Stop what runs for UNIT."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "cancel" (ckwatch--here :unit unit)))

(defun ckwatch-set-baseline (name)
  "Keep the present timings as the baseline NAME; empty for the default one."
  (interactive "sName of the baseline: ")
  (apply #'ckwatch-start "setBaseline" (ckwatch--here :name name)))

(defun ckwatch-compare (&optional unit against)
  "Compare UNIT's timing with AGAINST, by default with the baseline."
  (interactive (list (ckwatch--read-unit) nil))
  (ckwatch--show-text "compare" (apply #'ckwatch-execute "compare" (ckwatch--here :unit unit :against against))))

(defun ckwatch-source (&optional unit)
  "Show the generated source of UNIT."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "openSource" (ckwatch--here :unit unit)))

(defun ckwatch-isa (&optional unit)
  "Show the listing of UNIT's code object."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "openIsa" (ckwatch--here :unit unit)))

(defun ckwatch-profile (&optional unit)
  "Show where the work of UNIT goes, line by line."
  (interactive (list (ckwatch--read-unit)))
  (apply #'ckwatch-start "openProfile" (ckwatch--here :unit unit)))

(defun ckwatch-choose-instance ()
  "Choose the instance that this template is shown for."
  (interactive)
  (let* ((units (append (ckwatch-execute "units") nil))
         (unit (completing-read "Instance: " (mapcar (lambda (unit) (plist-get unit :id)) units) nil t)))
    (apply #'ckwatch-start "chooseInstance" (ckwatch--here :unit unit))))

(defun ckwatch-log ()
  "Show the daemon's log."
  (interactive)
  (ckwatch--show-text "log" (ckwatch-execute "showLog")))

(defun ckwatch-restart ()
  "Start the daemon again."
  (interactive)
  (apply #'ckwatch-start "restartDaemon" (ckwatch--here)))

(defun ckwatch-trust ()
  "Trust this workspace.
Its templates and compiler flags are code that runs on this machine."
  (interactive)
  (apply #'ckwatch-start "trust" (ckwatch--here)))

(defvar-local ckwatch--listed nil)

(define-derived-mode ckwatch-units-mode tabulated-list-mode "CK-Units"
  "The units of a workspace; RET goes to the instance."
  (setq tabulated-list-format [("Unit" 56 t) ("" 10 t) ("Figures" 40 nil)])
  (tabulated-list-init-header))

(define-key ckwatch-units-mode-map (kbd "RET") #'ckwatch-visit-unit)

(defun ckwatch-visit-unit ()
  "Go to the instance of the unit at point."
  (interactive)
  (when-let* ((unit (tabulated-list-get-id)))
    (pop-to-buffer (find-file-noselect (ckwatch--path (plist-get unit :uri))))
    (goto-char (point-min))
    (forward-line (plist-get (plist-get (plist-get unit :range) :start) :line))))

(defun ckwatch-units ()
  "List the units with their states and figures."
  (interactive)
  (let ((units (append (ckwatch-execute "units") nil)))
    (with-current-buffer (get-buffer-create "*ckwatch units*")
      (ckwatch-units-mode)
      (setq tabulated-list-entries
            (mapcar (lambda (unit)
                      (list unit (vector (or (plist-get unit :id) "") (or (plist-get unit :phase) "")
                                         (or (plist-get unit :text) ""))))
                    units))
      (tabulated-list-print)
      (pop-to-buffer (current-buffer)))))

;;;; Generated source and ISA: files of which the server is the file system

(defun ckwatch--file-handler (operation &rest arguments)
  "Do OPERATION of the file system with ARGUMENTS on a `ckwatch:' URI."
  (pcase operation
    ('insert-file-contents (apply #'ckwatch--insert arguments))
    ((or 'expand-file-name 'file-truename 'abbreviate-file-name 'substitute-in-file-name) (car arguments))
    ('file-name-directory (and (string-match "\\`.*/" (car arguments)) (match-string 0 (car arguments))))
    ('file-name-nondirectory (ckwatch--base-name (car arguments)))
    ((or 'file-exists-p 'file-readable-p 'file-regular-p) t)
    ((or 'file-directory-p 'file-writable-p 'file-remote-p 'vc-registered 'file-symlink-p 'file-locked-p
         'make-auto-save-file-name 'file-attributes 'file-modes 'file-newer-than-file-p 'unhandled-file-name-directory)
     nil)
    ('verify-visited-file-modtime t)
    (_ (let ((inhibit-file-name-handlers
              (cons #'ckwatch--file-handler
                    (and (eq inhibit-file-name-operation operation) inhibit-file-name-handlers)))
             (inhibit-file-name-operation operation))
         (apply operation arguments)))))

(defun ckwatch--base-name (uri)
  "What a buffer of URI is called."
  (let ((path (car (split-string uri "?"))))
    (substring path (if (string-match ".*/" path) (match-end 0) 0))))

(defun ckwatch--insert (uri &optional visit _begin _end replace)
  "Insert the text of URI, which the buffer shall VISIT, and REPLACE what is there."
  (let* ((root (ckwatch-workspace uri))
         (server (seq-some (lambda (buffer)
                             (with-current-buffer buffer
                               (and (not (equal buffer-file-name uri)) (equal (ckwatch-workspace) root) (ckwatch--server))))
                           (buffer-list)))
         (document (if server
                       (jsonrpc-request server :workspace/executeCommand
                                        (list :command "ckwatch.document" :arguments (vector (list :uri uri))) :timeout 60)
                     (user-error "No language server of ckwatch runs for %s" root)))
         (text (or (plist-get document :text) ""))
         (inhibit-read-only t))
    (when replace (erase-buffer))
    (save-excursion (insert text))
    (when visit
      (setq buffer-file-name uri)
      (set-buffer-modified-p nil))
    (list uri (length text))))

(add-to-list 'file-name-handler-alist '("\\`ckwatch://" . ckwatch--file-handler))
(add-to-list 'auto-mode-alist '("\\`ckwatch://source/" . ckwatch-source-mode))
(add-to-list 'auto-mode-alist '("\\`ckwatch://isa/" . ckwatch-isa-mode))

(defun ckwatch--refresh (uri)
  "Read URI again in the buffer that shows it; point stays on its line."
  (when-let* ((buffer (find-buffer-visiting uri)))
    (with-current-buffer buffer
      (let ((line (line-number-at-pos)))
        (ckwatch--insert uri t nil nil t)
        (goto-char (point-min))
        (forward-line (1- line))))))

(provide 'ckwatch)

;;;; Eglot

(with-eval-after-load 'eglot
  (require 'ckwatch-eglot (expand-file-name "ckwatch-eglot" (file-name-directory (or load-file-name (locate-library "ckwatch"))))))

;;;; lsp-mode

(declare-function lsp-get "lsp-protocol")
(declare-function lsp--uri-to-path "lsp-mode")

(defun ckwatch--lsp-status (_workspace status)
  "Keep the daemon's STATUS, for the mode line."
  (ckwatch--set-status (lsp--uri-to-path (lsp-get status :folder)) (lsp-get status :health)
                       (lsp-get status :quiescent) (lsp-get status :message)))

(defun ckwatch--lsp-notifications ()
  "What is done about notifications of our own."
  (let ((handlers (make-hash-table :test #'equal)))
    (puthash "experimental/serverStatus" #'ckwatch--lsp-status handlers)
    handlers))

(declare-function lsp "lsp-mode")
(declare-function lsp-request "lsp-mode")
(declare-function lsp-session "lsp-mode")
(declare-function lsp--session-workspaces "lsp-mode")
(declare-function lsp--workspace-client "lsp-mode")
(declare-function lsp--workspace-status "lsp-mode")
(declare-function lsp--client-server-id "lsp-mode")

(defun ckwatch--lsp-header-p (workspace file)
  "Whether FILE is a header in the eyes of WORKSPACE, which is lsp-mode's."
  (defvar lsp--cur-workspace)
  (defvar lsp--buffer-workspaces)
  (and (eq (lsp--client-server-id (lsp--workspace-client workspace)) 'ckwatch)
       (eq (lsp--workspace-status workspace) 'initialized)
       (let* ((lsp--cur-workspace workspace)
              (lsp--buffer-workspaces (list workspace))
              (answer (ignore-errors (lsp-request "ckwatch/isHeader" (list :uri (lsp--path-to-uri file))))))
         (and answer (eq t (lsp-get answer :header))))))

(defun ckwatch--lsp-known-header-p (file)
  "Whether FILE is a header in the eyes of some workspace of lsp-mode."
  (seq-some (lambda (workspace) (ckwatch--lsp-header-p workspace file)) (lsp--session-workspaces (lsp-session))))

(defun ckwatch--lsp-supports-p (file _mode)
  "Whether FILE, which this buffer visits, is for the server.
It is for a file of a workspace, and for a header."
  (or (derived-mode-p 'ckwatch-template-mode 'ckwatch-kernel-mode)
      (and (derived-mode-p 'prog-mode) (ckwatch--lsp-known-header-p file))))

(defun ckwatch--lsp-library-folders (workspace)
  "The folder of this buffer's file, where that is a header of WORKSPACE.
What lies there is opened by lsp-mode for that workspace, read-only."
  (and (ckwatch--lsp-header-p workspace buffer-file-name) (list (file-name-directory buffer-file-name))))

(defun ckwatch--lsp-visit ()
  "Have headers served that the C++ of templates includes."
  (defvar lsp--buffer-workspaces)
  (when (and (derived-mode-p 'prog-mode) (not lsp--buffer-workspaces) (ckwatch--lsp-known-header-p buffer-file-name))
    (lsp)))

(with-eval-after-load 'lsp-mode
  (defvar lsp-language-id-configuration)
  (add-hook 'find-file-hook #'ckwatch--lsp-visit)
  (add-to-list 'lsp-language-id-configuration '(ckwatch-template-mode . "ckwatch-template"))
  (add-to-list 'lsp-language-id-configuration '(ckwatch-kernel-mode . "ckwatch-kernel"))
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () ckwatch-command))
                    :activation-fn #'ckwatch--lsp-supports-p
                    :library-folders-fn #'ckwatch--lsp-library-folders
                    :priority 1
                    :multi-root nil
                    :custom-capabilities '((experimental . ((serverStatusNotification . t))))
                    :notification-handlers (ckwatch--lsp-notifications)
                    :server-id 'ckwatch)))

;;; ckwatch.el ends here
