// Package ratelimit limits what an account, a host or any other key may do in a period: the number
// of different recipients, different senders, messages or bytes.
//
// It is the rate limiter of Finch, "What use are Bloom filters, anyway?" (2008), extended to many
// keys and many rules. A rule has templates over the attributes of a request, one for its key and
// one for the items that are counted once, so one mechanism covers all cases:
//
//	recipients of an account   key "{sasl_username}"   unique "{recipient}"
//	senders of a host          key "{client_address}"  unique "{sender}"
//	messages of an account     key "{sasl_username}"   unique "{instance}"
//	bytes of an account        key "{sasl_username}"   count  "{size}"
//
// A key takes 32 bytes, 1 to 2 bytes of index, and the memory of its different items. Up to 4 items
// take 20 bytes and each further item 8 to 12, but no more than 2 bytes for each unit of a limit
// above 10. Each rule has a memory budget. Idle keys are dropped; when the budget is spent, the key
// with the lowest rate among a few is evicted. The states of each rule are saved to a file, and
// every size in a file is checked before it is used.
//
//	l, err := ratelimit.Open(ratelimit.Options{Rules: rules, Dir: dir})
//	action, text, err := l.Limit(ctx, func(name string) []byte { ... })
//	err = l.Run(ctx) // saves now and then, and at the end
package ratelimit
