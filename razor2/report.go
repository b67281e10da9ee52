package razor2

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
)

// report answers the first step of a report, signatures: docs/specs/razor2.md#report. It
// always asks for the mail: otherwise the server would learn neither the links nor the
// signatures of other schemes.
func (c *session) report() {
	for _, v := range c.rows {
		switch {
		case !wellFormed(v, "r"):
			c.server.Stats.Malformed.Add(1)
			c.out.row("err=200")
		case c.user == "":
			c.out.row("err=202")
		default:
			if sig, ok := c.server.parse(v); ok && sig.Scheme() == bulkhead.RazorE4 {
				c.out.row("err=230")
			} else {
				c.out.row("res=0")
			}
		}
	}
}

// message takes the second step of a report, the mail: docs/specs/razor2.md#reported-mail. The mail
// is read whole before it is answered, so that the connection stays in step.
func (c *session) message(ctx context.Context, v Values) error {
	keep := !c.limited && c.user != "" && v.Get("a") == "r"
	hold := c.server.Memory.Hold()
	defer hold.Release()
	block, crowded, err := c.readMessage(ctx, keep, &hold)
	switch {
	case err != nil:
		return c.refuse(err)
	case c.limited || crowded:
		c.server.Stats.Limited.Add(1)
		c.out.row("err=203")
	case v.Get("a") != "r":
		c.server.Stats.Malformed.Add(1)
		c.out.row("err=200")
	case c.user == "":
		c.out.row("err=202")
	default:
		c.out.row(c.reportMail(ctx, block))
	}
	return nil
}

func (c *session) reportMail(ctx context.Context, block []byte) string {
	ctx, cancel := context.WithTimeout(ctx, c.server.RequestTime)
	defer cancel()
	header, parts := splitBlock(block)
	sigs := c.server.listed(parts)
	var source bulkhead.Source
	if c.server.Read != nil && len(parts) > 0 && len(block) < batchKiB<<10-partRoom {
		all, from, err := c.server.Read(ctx, razor.Message(header, parts))
		if err != nil && !errors.Is(err, bulkhead.ErrMalformed) {
			return c.server.status("read a reported mail", err)
		}
		source = from
		for _, s := range all {
			// Razor's own signatures were computed from the parts as the client prepared them, and
			// their links have been counted.
			own := s.Scheme() == bulkhead.RazorE4 || s.Scheme() == bulkhead.RazorE8
			if !own && !slices.Contains(sigs, s) {
				sigs = append(sigs, s)
			}
		}
	}
	if len(sigs) == 0 {
		return "res=0"
	}
	receipt, err := c.server.Clearinghouse.Report(ctx, bulkhead.Report{
		Signatures: sigs, Vote: bulkhead.Spam, Source: source, Reporter: c.reporter(),
	})
	if err != nil {
		return c.server.refusal("report", err)
	}
	if receipt.Refused() {
		return "res=0"
	}
	c.server.Stats.Reports.Add(1)
	return "res=1"
}

// refusal answers a vote that the clearinghouse refused.
func (s *Server) refusal(what string, err error) string {
	if errors.Is(err, bulkhead.ErrForbidden) {
		return "res=0"
	}
	return s.status(what, err)
}

// splitBlock splits the block of a report into the header of the mail and its parts. A
// piece that is not a part belongs to the header, in which damaged line ends have left a
// CR LF.
func splitBlock(block []byte) (header []byte, parts [][]byte) {
	mark := []byte("\r\nX-Razor2-")
	header, rest, found := bytes.Cut(block, mark)
	header = bytes.ReplaceAll(header, []byte("\r\n"), []byte("\n"))
	for found {
		var part []byte
		part, rest, found = bytes.Cut(rest, mark)
		parts = append(parts, append([]byte("X-Razor2-"), part...))
	}
	return header, parts
}

// listed returns the Razor signatures of a mail's parts that a report lists: no empty or
// tiny text, at most MaxHosts links of a part, and none to an exempt host.
func (s *Server) listed(parts [][]byte) []bulkhead.Signature {
	var sigs []bulkhead.Signature
	for _, raw := range parts {
		p, ok := razor.Prepared(raw)
		if !ok {
			continue
		}
		if p.Listable() && !slices.Contains(sigs, p.E4) {
			sigs = append(sigs, p.E4)
		}
		hosts := 0
		for i, sig := range p.E8 {
			if hosts >= s.MaxHosts {
				break
			}
			if s.exemptHost(p.Hosts[i]) || slices.Contains(sigs, sig) {
				continue
			}
			hosts++
			sigs = append(sigs, sig)
		}
		if len(sigs) > maxSignatures {
			return sigs[:maxSignatures]
		}
	}
	return sigs
}

// maxSignatures bounds the Razor signatures of one message block: some 120 parts
// fit into one, with few links each.
const maxSignatures = 512

// exemptHost reports whether a host, as the client writes it, is exempt or below an
// exempt domain.
func (s *Server) exemptHost(host string) bool {
	host = string(bytes.ToLower([]byte(host)))
	for {
		if slices.Contains(s.ExemptHosts, host) {
			return true
		}
		_, parent, ok := cutByte(host, '.')
		if !ok {
			return false
		}
		host = parent
	}
}

func cutByte(s string, sep byte) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// revoke answers a=revoke: docs/specs/razor2.md#revoke.
func (c *session) revoke(ctx context.Context) {
	c.asked = c.asked[:0]
	for _, v := range c.rows {
		if sig, ok := c.server.parse(v); ok && wellFormed(v, "revoke") && !slices.Contains(c.asked, sig) {
			c.asked = append(c.asked, sig)
		}
	}
	answer := "res=1"
	switch {
	case c.user == "":
		answer = "err=202"
	case len(c.asked) > 0:
		// The signatures outlive this request inside the clearinghouse.
		_, err := c.server.Clearinghouse.Report(ctx, bulkhead.Report{
			Signatures: slices.Clone(c.asked), Vote: bulkhead.Revocation, Reporter: c.reporter(),
		})
		if err != nil {
			answer = c.server.refusal("revoke", err)
		} else {
			c.server.Stats.Revokes.Add(int64(len(c.asked)))
		}
	}
	for _, v := range c.rows {
		if !wellFormed(v, "revoke") {
			c.server.Stats.Malformed.Add(1)
			c.out.row("err=200")
			continue
		}
		c.out.row(answer)
	}
}
