// Package ratelimit limits what one account, host or any other key may do in a
// period: different recipients, different senders, messages, bytes.
//
// It is the rate limiter of Finch, "What use are Bloom filters, anyway?" (2008),
// held for many keys and many rules. A rule names its key and the value that is
// to be unique as templates over the attributes of a request, so that all the
// cases are one mechanism:
//
//	recipients of an account   key "{sasl_username}"   unique "{recipient}"
//	senders of a host          key "{client_address}"  unique "{sender}"
//	messages of an account     key "{sasl_username}"   unique "{instance}"
//	bytes of an account        key "{sasl_username}"   count  "{size}"
//
// A key costs 32 bytes, about one byte of index, and what its different items take: 20
// bytes for up to 4, 8 to 12 for each further one, and at most 2 for each unit of the limit. Each rule has a memory budget; idle keys are dropped,
// and when the budget is spent, the key with the lowest rate among a few makes
// room. The state is saved to one file for each rule, and every size in a file
// is checked before it is used.
//
//	l, err := ratelimit.Open(ratelimit.Options{Rules: rules, Dir: dir})
//	action, text, err := l.Limit(func(name string) []byte { ... })
//	err = l.Run(ctx) // saves now and then, and at the end
package ratelimit
