package verdict

import "github.com/bulkhead-mail/bulkhead"

// A State is what the walk over the generations of one blocklist, newest first,
// has found of one signature so far. In a spam filter and in no revocation filter
// as new or newer means spam (Yan and Cho, section 3).
type State uint8

// The states. Those from Listed on are decided by the generations so far.
const (
	Nothing       State = iota
	Revoked             // a revocation, and no spam entry yet
	Listed              // a spam entry, no revocation as new as it
	ListedRevoked       // a spam entry, and a revocation as new or newer
)

// Decided reports whether older generations change nothing any more.
func (s State) Decided() bool { return s >= Listed }

// Next returns the state after one more generation, older than those before, in
// whose filters the signature is or is not.
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

// Peers is what other servers say of one signature: the weight of those that
// list it, and of those that have revoked it, 1 for a server whose word is taken
// whole.
type Peers struct{ Spam, Revoked float64 }

// Add takes what a peer of the weight says, or the union of several that may each
// list alone. A revocation in a union is that of one of them: it may be another
// who lists.
func (p *Peers) Add(state State, weight float64, union bool) {
	if state == Listed || union && state == ListedRevoked {
		p.Spam += weight
	}
	if state == Revoked || state == ListedRevoked {
		p.Revoked += weight
	}
}

// slack is more than a sum of weights of peers is off by: 0.7, 0.2 and 0.1 have none
// that is 1 in binary.
const slack = 1e-9

// Judge returns the judgement of a signature. The node's own blocklist decides
// where it says anything. Otherwise the peers that list a signature must weigh as
// much as a report needs to be promoted, after those that have revoked it are
// taken off.
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
