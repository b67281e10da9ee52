// Package resolve decides what reports do: what is counted of a sighting, what a vote
// weighs and where its blame falls, what is listed and taken off, whose reports are
// confirmed. It changes nothing. A [Resolver] reads the books and writes down
// [Decisions]; the writer makes them durable and applies them, and replay applies them
// again without asking anybody.
//
// # A vote
//
// A message is more than its text. A vote falls on the text in full; on links, the
// sender, attachments and contacts in shares: in full on what is new, hardly on what
// was delivered often without complaint. What is established in a message is thus not
// damaged by votes on what somebody has put beside it. On the text together with each
// sender and link, a pair, it falls too, so that the same text from somebody else is
// told apart. docs/judgement.md says what verdicts make of it.
//
// The latest vote of a voice is what counts. What the voice added before is taken back,
// in the generation that has it: cells only grow, so what is taken back of a key is
// added to another.
//
// # A sighting
//
// A sighting by a root is a delivery, once a day for each recipient, unless the message
// was called spam when it came. Strangers' sightings are claims: one for each voice, of
// texts only, until half the threshold of bulk is theirs.
package resolve
