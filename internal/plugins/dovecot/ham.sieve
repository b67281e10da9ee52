# Moved out of Junk, and not thrown away: a vote of the user against it.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.mailbox" ["Trash", "*/Trash", "*.Trash", "Deleted*"] { stop; }
if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy "bulkhead-vote" ["ham", "${user}"];
