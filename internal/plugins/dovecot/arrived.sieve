# What arrives marked as spam, by the milter, rspamd or SpamAssassin.
require ["fileinto", "mailbox"];
if anyof (header :is "X-Bulkhead" "spam", header :is "X-Spam" "Yes", header :is "X-Spam-Flag" "YES") {
  fileinto :create "Junk";
  stop;
}
