package razor2

import (
	"context"
	"strconv"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// parse returns the signature in a row. It reports false if the signature cannot have been listed:
// it has another seed or engine, or a text that no client computes.
func (s *Server) parse(v Values) (bulkhead.Signature, bool) {
	var scheme bulkhead.Scheme
	switch v.Get("e") {
	case "4":
		scheme = bulkhead.RazorE4
		if ep4 := v.Get("ep4"); ep4 != "" && ep4 != razor.EP4 {
			return bulkhead.Signature{}, false
		}
	case "8":
		scheme = bulkhead.RazorE8
	default:
		return bulkhead.Signature{}, false
	}
	sig, err := razor.Parse(scheme, v.Get("s"))
	if err != nil || !s.listable(&sig) {
		return bulkhead.Signature{}, false
	}
	return sig, true
}

// emptySum is the engine-4 signature of an empty text, which all mails that consist of tags share.
const emptySum = "tclcd6dtLQvEqt9_mmCBkF-xDgkA"

// listable reports whether a signature may be listed at all.
func (s *Server) listable(sig *bulkhead.Signature) bool {
	if sig.Scheme() == bulkhead.RazorE8 {
		return !s.setup.exempt[[6]byte(sig.Sum())]
	}
	return razor.Text(sig.Sum()) != emptySum
}

// wellFormed reports whether a row has the keys that a query or a vote needs.
func wellFormed(v Values, command string) bool {
	if v.Get("a") != command || v.Get("e") == "" {
		return false
	}
	s := v.Get("s")
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// check answers a=c: docs/specs/razor2.md#check. A batch may mix rows of several mails, so each row
// is a separate query.
func (c *session) check(ctx context.Context) {
	c.asked, c.indexes = c.asked[:0], c.indexes[:0]
	for _, v := range c.rows {
		index := -1
		if sig, ok := c.server.parse(v); ok && wellFormed(v, "c") {
			index = len(c.asked)
			c.asked = append(c.asked, sig)
		}
		c.indexes = append(c.indexes, index)
	}
	if err := c.ask(ctx); err != nil {
		c.each(c.server.status("check", err))
		return
	}
	c.server.Stats.Checks.Add(int64(len(c.rows)))
	for i, v := range c.rows {
		switch {
		case !wellFormed(v, "c"):
			c.server.Stats.Malformed.Add(1)
			c.out.row("err=200")
		case c.indexes[i] < 0:
			c.out.row("p=0")
		default:
			c.verdict(&c.verdicts[c.indexes[i]])
		}
	}
}

// ask fills verdicts for the signatures in asked.
func (c *session) ask(ctx context.Context) error {
	n := len(c.asked)
	c.queries = c.queries[:0]
	for i := range n {
		c.queries = append(c.queries, bulkhead.Query{Signatures: c.asked[i : i+1], Reporter: c.reporter()})
	}
	for len(c.verdicts) < n {
		c.verdicts = append(c.verdicts, bulkhead.Verdict{})
	}
	return bulkhead.CheckBatch(ctx, c.server.Clearinghouse, c.queries, c.verdicts[:n])
}

// verdict answers one row. Rows that are not listed have no confidence, because SpamAssassin reads
// it without looking at p. Suspected rows have a confidence below fullScore, which distinguishes
// them from spam.
func (c *session) verdict(v *bulkhead.Verdict) {
	if len(v.Findings) != 1 || v.Whitelisted != "" || v.Class == bulkhead.ClassGood {
		c.out.row("p=0")
		return
	}
	f := &v.Findings[0]
	least := max(c.server.Confidence, fullScore)
	cf := max(f.Confidence, least)
	switch {
	case v.Class == bulkhead.ClassSpam, linkListed(f):
	case v.Class == bulkhead.ClassSuspected && c.server.Confidence < fullScore:
		cf = min(max(v.Confidence, c.server.Confidence), fullScore-1)
	default:
		c.out.row("p=0")
		return
	}
	c.server.Stats.Listed.Add(1)
	row := append(make([]byte, 0, 20), "p=1&cf="...)
	row = strconv.AppendInt(row, int64(min(cf, 100)), 10)
	if f.Contested {
		row = append(row, "&ct=1"...)
	}
	c.out.row(string(row))
}

// linkListed reports whether a finding describes a listed link. Links only inform other verdicts,
// but decide here.
func linkListed(f *bulkhead.Finding) bool {
	return f.Judged == bulkhead.JudgedSpam && f.Signature.Scheme() == bulkhead.RazorE8
}
