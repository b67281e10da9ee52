# Moved into Junk: a vote of the user for spam.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy "bulkhead-vote" ["spam", "${user}"];
