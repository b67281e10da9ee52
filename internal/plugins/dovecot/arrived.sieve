# What arrives marked as spam, by the milter, rspamd or SpamAssassin.
require ["fileinto", "mailbox"];
if anyof (header :is "X-Bulkhead" "spam", header :is "X-Spam" "Yes", header :is "X-Spam-Flag" "YES",
  allof (header :is "X-Bulkhead" "suspected", header :contains "X-Bulkhead-Results" " unanswered=yes")) {
  fileinto :create "Junk";
  stop;
}
