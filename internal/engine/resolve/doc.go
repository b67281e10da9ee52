// Package resolve decides what reports do: what a sighting counts, what a vote weighs and
// where its blame falls, what is listed and taken off, and whose reports are confirmed. It
// changes nothing itself. A [Resolver] reads the books and records [Decisions]; the writer
// makes them durable and applies them, and replay applies them again as they are.
//
// # A vote
//
// A message is more than its text. A vote falls on the text in full. On links, the sender, the
// network, attachments and contacts it falls in shares: in full on what is new, hardly at all on
// what was often delivered without complaint. So votes do not damage what is established
// in a message because of what somebody has put beside it. A vote also falls on pairs, the
// text together with its sender or a link, which tell the same text from somebody else
// apart. docs/judgement.md says what verdicts make of all this.
//
// Only the latest vote of a voice counts. What the voice added before is taken back in the
// generation that has it. Cells only grow, so what is taken back from a key is added to
// another key.
//
// # A sighting
//
// A sighting by a root is a delivery, once a day for each recipient, unless the message
// was called spam on arrival. Strangers' sightings are claims: one for each voice and
// generation, on texts only, up to half the bulk threshold.
package resolve
