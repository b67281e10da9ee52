package verdict

import "github.com/bulkhead-mail/bulkhead"

// A State is the result so far for one signature of the walk over the generations of one blocklist,
// newest first. A signature is spam if a spam filter has it and no revocation filter of the same or
// a newer generation does (Yan and Cho, section 3).
type State uint8

// The states. Those from Listed on are decided by the generations so far.
const (
	Nothing       State = iota
	Revoked             // a revocation, and no spam entry yet
	Listed              // a spam entry, and no revocation as new or newer
	ListedRevoked       // a spam entry, and a revocation as new or newer
)

// Decided reports whether older generations cannot change the state.
func (s State) Decided() bool { return s >= Listed }

// Next returns the state after one more generation, older than the previous ones. spam and revoked
// report whether its filters have the signature.
func (s State) Next(spam, revoked bool) State {
	revoked = revoked || s == Revoked
	switch {
	case spam && revoked:
		return ListedRevoked
	case spam:
		return Listed
	case revoked:
		return Revoked
	}
	return Nothing
}

// unrevoked returns the state that would hold without any revocation.
func (s State) unrevoked() State {
	switch s {
	case ListedRevoked:
		return Listed
	case Revoked:
		return Nothing
	}
	return s
}

// Peers is the weight of the other servers that list one signature, of the servers that have
// revoked it, and of the revoking servers that would otherwise list it. A server of full weight
// adds 1.
type Peers struct{ Spam, Revoked, Hidden float64 }

// Add adds the state of a peer of the weight, or of the union of several that may each list alone.
// A revocation in a union belongs to one of the peers: another may list.
func (p *Peers) Add(state State, weight float64, union bool) {
	if state == Listed || union && state == ListedRevoked {
		p.Spam += weight
	}
	if state == Revoked || state == ListedRevoked {
		p.Revoked += weight
	}
	if state == ListedRevoked && !union {
		p.Hidden += weight
	}
}

// slack is more than the rounding error of a sum of peers' weights: 0.7, 0.2 and 0.1 do
// not add up to 1 in binary.
const slack = 1e-9

// Judge returns the judgement of a signature. The node's own blocklist decides if it has an entry.
// Otherwise, the weight of the peers that list the signature, less the weight of the peers that
// have revoked it, must reach the promotion weight.
func Judge(own State, peers Peers, promotion float64) bulkhead.Judgement {
	promotion -= slack
	listed := peers.Spam >= promotion
	switch {
	case own == Listed:
		return bulkhead.JudgedSpam
	case own == ListedRevoked, own == Revoked && listed:
		return bulkhead.Revoked
	case own == Nothing && listed && peers.Spam-peers.Revoked >= promotion:
		return bulkhead.JudgedSpam
	case own == Nothing && listed:
		return bulkhead.Revoked
	}
	return bulkhead.Unjudged
}
