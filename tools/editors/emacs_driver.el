;;; emacs_driver.el --- Runs Lisp that a test sends  -*- lexical-binding: t; -*-

;; Each line on the socket named by DRIVER_SOCKET is a JSON object {id, lisp, wait}; each answer is one, too.  Where `wait'
;; is a number, the answer comes when the value is non-nil, or nil after so many seconds; meanwhile Emacs is idle.

(require 'json)

(defun driver-plain (value)
  "VALUE as JSON has it: plists are objects, lists arrays, symbols strings."
  (cond ((null value) :null)
        ((eq value t) t)
        ((or (stringp value) (numberp value)) (if (stringp value) (substring-no-properties value) value))
        ((symbolp value) (symbol-name value))
        ((and (consp value) (keywordp (car value)))
         (let ((object (make-hash-table :test #'equal)))
           (while value
             (puthash (substring (symbol-name (pop value)) 1) (driver-plain (pop value)) object))
           object))
        ((vectorp value) (vconcat (mapcar #'driver-plain value)))
        ((proper-list-p value) (vconcat (mapcar #'driver-plain value)))
        (t (format "%S" value))))

(defun driver-answer (process id done value)
  (process-send-string
   process (concat (json-serialize (list :id id :done (if done t :false) :result (driver-plain value))) "\n")))

(defun driver-eval (form)
  "FORM's value in the buffer of the selected window."
  (with-current-buffer (window-buffer (selected-window))
    (eval form t)))

(defun driver-wait (process id form until)
  (condition-case problem
      (let ((value (driver-eval form)))
        (if (or value (time-less-p until nil))
            (driver-answer process id t value)
          (run-with-timer 0.05 nil #'driver-wait process id form until)))
    (error (driver-answer process id nil (format "%S" problem)))))

(defun driver-take (process text)
  (let ((all (concat (process-get process 'rest) text)))
    (while (string-match "\n" all)
      (let* ((line (substring all 0 (match-beginning 0)))
             (request (progn (setq all (substring all (match-end 0)))
                             (json-parse-string line :object-type 'plist :null-object nil)))
             (id (plist-get request :id)))
        (condition-case problem
            (let ((form (car (read-from-string (plist-get request :lisp)))))
              (if (plist-get request :wait)
                  (driver-wait process id form (time-add nil (plist-get request :wait)))
                (driver-answer process id t (driver-eval form))))
          (error (driver-answer process id nil (format "%S" problem))))))
    (process-put process 'rest all)))

(make-network-process :name "driver" :server t :family 'local :service (getenv "DRIVER_SOCKET") :coding 'utf-8
                      :filter #'driver-take :noquery t)
