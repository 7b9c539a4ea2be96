;;; ckwatch-eglot.el --- ckwatch's language server for Eglot  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT

;;; Commentary:

;; Loaded by ckwatch.el once Eglot is.  It adds what the server can do and Eglot does not ask for by itself: virtual
;; documents, hints that are read again when figures change, headers that definitions lead to, and the daemon's state in
;; the mode line.

;;; Code:

(require 'eglot)
(require 'ckwatch)

(defclass ckwatch-eglot-server (eglot-lsp-server) ()
  :documentation "The language server `ckwatch lsp'.")

(add-to-list 'eglot-server-programs
             `(((ckwatch-template-mode :language-id "ckwatch-template")
                (ckwatch-kernel-mode :language-id "ckwatch-kernel")
                (ckwatch-source-mode :language-id "cpp")
                (ckwatch-isa-mode :language-id "asm"))
               . ,(lambda (&rest _) (cons 'ckwatch-eglot-server ckwatch-command))))

(cl-defmethod eglot-client-capabilities ((_server ckwatch-eglot-server))
  "What Eglot can do, and what ckwatch.el adds."
  (let* ((capabilities (copy-sequence (cl-call-next-method)))
         (workspace (copy-sequence (plist-get capabilities :workspace))))
    (setq workspace (plist-put workspace :inlayHint '(:refreshSupport t)))
    (setq workspace (plist-put workspace :textDocumentContent '(:dynamicRegistration :json-false)))
    (setq capabilities (plist-put capabilities :workspace workspace))
    (plist-put capabilities :experimental '(:serverStatusNotification t))))

(cl-defmethod eglot-handle-notification
  ((server ckwatch-eglot-server) (_method (eql experimental/serverStatus)) &key health quiescent message folder &allow-other-keys)
  "The daemon's state, for the mode line."
  (ckwatch--set-status (cond ((null folder) (project-root (eglot--project server)))
                             ((string-prefix-p "file:" folder) (ckwatch--path folder))
                             (t folder))
                       health quiescent message))

(cl-defmethod eglot-handle-request ((server ckwatch-eglot-server) (_method (eql workspace/inlayHint/refresh)) &rest _)
  "Figures have changed: hints are read again."
  (dolist (buffer (eglot--managed-buffers server))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        ;; Eglot has no public way: switching the mode off and on again asks
        ;; nothing for a region that it has asked for last.
        (when (and (bound-and-true-p eglot-inlay-hints-mode) (fboundp 'eglot--update-hints-1))
          (eglot--update-hints-1 (point-min) (point-max))))))
  nil)

(cl-defmethod eglot-handle-request ((_server ckwatch-eglot-server) (_method (eql workspace/textDocumentContent/refresh)) &key uri &allow-other-keys)
  "The text of URI has changed.
It is read later, because a request may not wait for another one."
  (run-with-timer 0 nil #'ckwatch--refresh uri)
  nil)

;;;; Headers that the C++ of templates includes, and templates that ship with ckwatch

(defun ckwatch-eglot--serve (server)
  "Have SERVER manage this buffer, unless another one does."
  (unless (eglot-managed-p)
    (unless (eglot--languageId server)
      (push (cons major-mode "cpp") (eglot--languages server)))
    (puthash (expand-file-name buffer-file-name) server eglot--servers-by-xrefed-file)
    (setq-local eglot-extend-to-xref t)
    (eglot--maybe-activate-editing-mode)))

(defun ckwatch-eglot--servers ()
  "Servers of ckwatch; first the one that has named this buffer's file."
  (let ((last (gethash (expand-file-name buffer-file-name) eglot--servers-by-xrefed-file)))
    (cl-loop for server in (cons last (apply #'append (hash-table-values eglot--servers-by-project)))
             when (and (cl-typep server 'ckwatch-eglot-server) (jsonrpc-running-p server))
             collect server into found
             finally return (delete-dups found))))

(defun ckwatch-eglot--visit ()
  "Have a header or template of a workspace served, and keep it as it is."
  (when (and (derived-mode-p 'prog-mode) buffer-file-name (not (string-prefix-p "ckwatch:" buffer-file-name)))
    (let ((uri (ckwatch--uri)))
      (cl-loop for server in (ckwatch-eglot--servers)
               for answer = (ignore-errors (jsonrpc-request server :ckwatch/isHeader (list :uri uri) :timeout 2))
               when (or (eq t (plist-get answer :header)) (eq t (plist-get answer :readOnly)))
               return (progn (ckwatch-eglot--serve server)
                             (when (eq t (plist-get answer :readOnly)) (read-only-mode 1)))))))

(add-hook 'find-file-hook #'ckwatch-eglot--visit)

(dolist (mode-hook '(ckwatch-source-mode-hook ckwatch-isa-mode-hook))
  (add-hook mode-hook #'eglot-ensure))

(provide 'ckwatch-eglot)
;;; ckwatch-eglot.el ends here
