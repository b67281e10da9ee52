package verdict

import "testing"

// TestListsPart: a part of a text is listed by votes that outweigh how often it was
// delivered, as for a suspicion, and never where senders of good standing send it.
func TestListsPart(t *testing.T) {
	guarded := voted(1, 0)
	guarded.Good = 3
	for name, tt := range map[string]struct {
		e     Evidence
		lists bool
	}{
		"nothing":               {Evidence{}, false},
		"one vote":              {voted(1, 0), true},
		"revoked":               {voted(1, 1), false},
		"16 deliveries":         {voted(1, 0).delivered(16), true},
		"17":                    {voted(1, 0).delivered(17), false},
		"two votes for 66":      {voted(2, 0).delivered(66), true},
		"and for 67":            {voted(2, 0).delivered(67), false},
		"of good senders":       {guarded, false},
		"a peer that lists":     {Evidence{Peers: Peers{Spam: 1}}, true},
		"half a peer":           {Evidence{Peers: Peers{Spam: 0.5}}, false},
		"votes without listing": {Evidence{Votes: voted(1, 0).Votes}, false},
	} {
		if got := (Policy{Promotion: 1, NearMatch: 2}).listsPart(&tt.e); got != tt.lists {
			t.Errorf("%s: listed %v", name, got)
		}
	}
}

// TestOutweighs: what stands in the message itself outweighs what is quoted in it, then most of a text a part, and of
// two alike the one with more votes.
func TestOutweighs(t *testing.T) {
	peer := &Match{Evidence: Evidence{Votes: voted(0, 0).Votes, Peers: Peers{Spam: 1.2}}}
	match := func(votes int, quoted bool) *Match { return &Match{Evidence: voted(votes, 0), Quoted: quoted} }
	of := func(samples, votes int, quoted bool) *Match { m := match(votes, quoted); m.Samples = samples; return m }
	for _, tt := range []struct {
		a, b *Match
		want bool
	}{
		{match(1, false), match(5, true), true}, {match(5, true), match(1, false), false},
		{match(2, false), match(1, false), true}, {match(1, false), match(2, false), false},
		{match(1, false), match(1, false), false},
		{match(2, true), match(1, true), true}, {match(1, true), match(2, true), false},
		// Most of a text outweighs a part of a text with more votes.
		{of(12, 1, false), of(11, 5, false), true}, {of(11, 5, false), of(12, 1, false), false},
		{of(12, 2, false), of(24, 1, false), true}, {of(11, 1, false), of(12, 5, true), true},
		// A peer that lists counts like one vote.
		{peer, match(2, false), false}, {match(2, false), peer, true}, {peer, match(1, false), true},
		{match(1, false), peer, false},
	} {
		if got := tt.a.outweighs(tt.b, Policy{Promotion: 1, NearMatch: 2}); got != tt.want {
			t.Errorf("%d votes, quoted %v, beside %d, %v: outweighs %v", tt.a.Evidence.Votes.Spam, tt.a.Quoted,
				tt.b.Evidence.Votes.Spam, tt.b.Quoted, got)
		}
	}
}
