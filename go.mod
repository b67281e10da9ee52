module github.com/bulkhead-mail/bulkhead

go 1.26
