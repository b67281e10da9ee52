package web

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Roles of a node of a pair, as in the API.
const (
	first  = "first"
	second = "second"
)

// fullStream is the share of a stream's limit from which the page warns: snapshots fail soon after.
const fullStream = 0.75

// pairHealth describes what the other node of the pair, the witness or the stream of the journal needs, as [health]
// does; "" if they need nothing.
func pairHealth(s *Status) (text, class string) {
	p, j := s.Standby, s.Journal
	switch {
	case p == nil:
	case p.Role == second && p.Connected:
		return "All is well: mail is checked here, and " + p.Address + " takes the reports, which this node follows.", ""
	case p.Role == second:
		return "Mail is checked, but the first node of the pair, " + p.Address + ", is not heard. If it is dead, run " +
			"\"bulkhead promote\" here.", "poor"
	case s.ReadOnly != "":
		return "", ""
	case p.Address != "" && !p.Connected:
		return "Mail is checked and reports are taken, but the standby " + p.Address + " is away: what is reported now " +
			"is on this machine alone.", "poor"
	case p.Witness != nil && p.Witness.Problem != "":
		return "Mail is checked and reports are taken, but the witness of the pair does not answer: the standby does not " +
			"take over by itself.", "poor"
	}
	if j != nil && s.ReadOnly == "" && filled(j) > fullStream {
		return fmt.Sprintf("Mail is checked and reports are taken, but the stream of the journal is %s full.",
			percent(filled(j))), "poor"
	}
	return "", ""
}

// filled returns how full a stream is, 0 to 1.
func filled(j *admin.Journal) float64 {
	if j.MaxBytes == 0 {
		return 0
	}
	return float64(j.Bytes) / float64(j.MaxBytes)
}

// pairWords describes the other node of the pair and the stream of the journal in a few words each. wrong reports
// whether one of them is away.
func pairWords(s *Status) (words []string, wrong bool) {
	if p := s.Standby; p != nil && p.Address != "" {
		who := "standby"
		if p.Role == second {
			who = "first node"
		}
		words = append(words, who+" "+step(p))
		wrong = !p.Connected
	}
	if j := s.Journal; j != nil {
		state := percent(filled(j)) + " full"
		if j.Problem != "" {
			state, wrong = "away", true
		}
		words = append(words, "stream of the journal "+state)
	}
	return words, wrong
}

// step describes how far the second node of a pair is.
func step(p *admin.Standby) string {
	switch {
	case p.Copying:
		return "is being copied"
	case !p.Connected:
		return "away"
	case p.Lag == 0:
		return "in step"
	}
	return fmt.Sprintf("behind by %s in the journal, for %.1f s", count(p.Lag), p.Age)
}

// pair returns a tile for the other node of the pair, one for the witness and one for the stream of the journal.
func pair(s *Status) g.Node {
	var all g.Group
	tile := func(name, value, detail string) {
		all = append(all, h.Div(h.Dt(h.Strong(g.Text(name))), h.Dd(g.Text(value)), h.Dd(h.Class("small"), g.Text(detail))))
	}
	if p := s.Standby; p != nil && p.Address != "" {
		name := "Standby"
		if p.Role == second {
			name = "First node"
		}
		detail := fmt.Sprintf("%s, term %d, entry %s", p.Address, p.Term, count(p.Copied))
		if p.Problem != "" {
			detail += ": " + p.Problem
		}
		tile(name, step(p), detail)
		if w := p.Witness; w != nil {
			detail := "the standby takes over by itself"
			switch {
			case w.Problem != "":
				detail = w.Problem
			case w.Behind:
				detail = "the standby may lack reports, and takes over by command only"
			}
			tile("Witness", map[string]string{"this": "this node has the lease", "other": "the other node has the lease",
				"none": "no node has the lease"}[w.Holder], detail)
		}
	}
	if j := s.Journal; j != nil {
		detail := fmt.Sprintf("%s to %s, %s of %s", count(j.First), count(j.Last), size(j.Bytes), size(j.MaxBytes))
		if j.Replicas > 0 {
			detail += ", on " + plural(uint64(j.Replicas), "server")
		}
		value := j.Server
		if j.Problem != "" {
			value, detail = "away", j.Problem
		}
		tile("Stream of the journal", value, detail)
	}
	if len(all) == 0 {
		return nil
	}
	return h.Section(h.H2(g.Text("Standby"), dim("what survives this machine")), h.Dl(h.Class("tiles"), all))
}
