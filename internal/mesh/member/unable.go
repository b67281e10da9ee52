package member

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
)

// A member that asks a hub for another secret adds whether it could take one. A hub announces none
// that a member cannot take, unless its administrator insists.

// maxUnable is the longest reason, in bytes.
const maxUnable = 200

// unableBeats is for how many heartbeats an answer holds. Members answer with every other one.
const unableBeats = 4 * SecretBeats

// An inability is a peer's answer that it cannot take another secret.
type inability struct {
	why string
	at  time.Time // by the monotonic clock
}

// noteUnable records whether a peer can take another secret. The question has been verified.
func (c *Secrets) noteUnable(p *Peer, data []byte) {
	var q SecretQuestion
	if json.Unmarshal(data, &q) != nil || q.Unable != "" && (len(q.Unable) > maxUnable ||
		!ed25519.Verify(p.Key[:], q.unableText(c.Opts.Identity.ID()), q.Vouched)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.unable[p.ID]
	if q.Unable == "" {
		delete(c.unable, p.ID)
		return
	}
	if c.unable == nil {
		c.unable = make(map[string]inability)
	}
	c.unable[p.ID] = inability{why: printable(q.Unable), at: time.Now()}
	if !known || before.why != c.unable[p.ID].why {
		c.Opts.Log.Warn("a member cannot take another secret of the network", "peer", p.Label(), "key", p.ID,
			"why", c.unable[p.ID].why, "consequence", "\"bulkhead rekey\" is refused while this lasts")
	}
}

// printable replaces what a peer should not write to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// Unable returns the peers that have lately answered that they cannot take another secret, each with
// its reason.
func (c *Secrets) Unable() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unable) == 0 {
		return nil
	}
	for _, p := range c.book.List() {
		if x, ok := c.unable[p.ID]; ok && time.Since(x.at) < unableBeats*c.Opts.Heartbeat {
			out = append(out, p.Label()+": "+x.why)
		}
	}
	slices.Sort(out)
	return out
}

// unableHere returns why this node, or one of its members, cannot take another secret; empty if all
// can.
func (c *Secrets) unableHere() string {
	var who []string
	if c.Opts.MayRekey != nil {
		if err := c.Opts.MayRekey(); err != nil {
			who = append(who, err.Error())
		}
	}
	out := strings.ToValidUTF8(strings.Join(append(who, c.Unable()...), "; "), "?")
	if len(out) > maxUnable {
		out = strings.ToValidUTF8(out[:maxUnable], "")
	}
	return out
}
