// Package resolve decides the effects of reports: the count of a sighting, the weight of a vote and
// where its blame falls, which signatures are listed and taken off, and whose reports are
// confirmed. It changes no array itself. A [Resolver] reads the books and records [Decisions]; the
// writer makes them durable and applies them, and replay applies them again as they are.
//
// # A vote
//
// A message is more than its text. A vote falls on the text in full. It falls in shares on links,
// the sender, the network, attachments and contacts: in full on new ones, hardly at all on ones
// that were often delivered without complaint. So a spammer cannot damage an established link or
// sender by adding it to a message. A vote also falls on pairs, the text together with its sender
// or a link. Pairs distinguish the text from the same text by another sender. docs/judgement.md
// describes how verdicts use all this.
//
// Only the latest vote of a voice counts. The weight that the voice added before is retracted in
// the generation that has it. Cells only grow, so a retraction from a key is added to another key.
//
// # A sighting
//
// A sighting by a root is a delivery, once a day for each recipient, unless the message
// was called spam on arrival. Strangers' sightings are claims: one for each voice and
// generation, on texts only, up to half the bulk threshold.
package resolve
