package dcc

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Layout of an ADMN request: date, val1, aop, val2, val3, val4 and a text.
//
// Source: docs/specs/dcc.md#administration.
const (
	adminSize    = 12
	maxAdminText = 64
	maxStatsText = 1024
)

// The administrative operations that are answered; all others would change the server, which only
// its own configuration and commands may do.
const (
	adminStats         = 6
	adminClientsByAddr = 11
	adminClientsByID   = 12
	adminClock         = 14
)

// A refusal is an error whose text is sent to the client.
type refusal string

func (r refusal) Error() string { return "dcc: " + string(r) }

const errNotYours = refusal("this client may not do that")

// clockSkew returns how many seconds the sender's clock is off, 0 if it is near enough.
func (s *Server) clockSkew(it *item) int64 {
	skew := int64(it.date()) - s.Now().Unix()
	if skew >= -maxClockSkew && skew <= maxClockSkew {
		return 0
	}
	return skew
}

func clockError(skew int64) refusal { return refusal(fmt.Sprintf("timestamp off by %d seconds", skew)) }

// admin appends the answer to an ADMN request.
func (s *Server) admin(dst []byte, it *item) []byte {
	val1, op := binary.BigEndian.Uint32(it.body[4:]), it.body[8]
	switch op {
	case adminStats:
		text := s.statsText()
		return s.adminText(dst, it, text[:min(len(text), int(min(val1, maxStatsText)), it.room())])
	case adminClientsByAddr, adminClientsByID:
		// No list of clients is kept: the answer is an empty one.
		return s.adminText(dst, it, "")
	case adminClock:
		if skew := s.clockSkew(it); skew != 0 {
			return s.adminError(dst, it, string(clockError(skew)))
		}
		return s.adminText(dst, it, "clocks agree\n")
	}
	return s.adminError(dst, it, fmt.Sprintf("administrative operation %d is not offered", op))
}

// room is the largest length of an answer's text. Without a password, an address on
// another machine gets at most 1.5 times as many bytes as it sent, so that forged
// requests cannot flood others.
func (it *item) room() int {
	if it.sender != AnonymousID || it.client.Addr().IsLoopback() {
		return maxStatsText
	}
	return max(0, len(it.raw)+len(it.raw)/2-(headerSize+signatureSize))
}

func (s *Server) adminText(dst []byte, it *item, text string) []byte {
	start := len(dst)
	dst = it.ans.begin(dst, Admin, s.ServerID)
	return it.ans.finish(append(dst, text...), start)
}

func (s *Server) adminError(dst []byte, it *item, text string) []byte {
	return it.ans.error(dst, s.ServerID, text[:min(len(text), max(0, it.room()-1))])
}

func (s *Server) statsText() string {
	var b strings.Builder
	st := &s.Stats
	fmt.Fprintf(&b, "%s server %d, up %v\n", s.Brand, s.ServerID, s.Now().Sub(s.setup.started).Round(time.Second))
	for _, line := range []struct {
		name string
		n    int64
	}{
		{"reports", st.Reports.Load()}, {"of spam", st.Spam.Load()}, {"queries", st.Queries.Load()},
		{"NOPs", st.NOPs.Load()}, {"deletes", st.Deletes.Load()}, {"retransmissions", st.Repeated.Load()},
		{"anonymous", st.Anonymous.Load()}, {"bad passwords", st.BadPassword.Load()},
		{"malformed", st.Malformed.Load()}, {"over limit", st.Limited.Load()}, {"faults", st.Faults.Load()},
	} {
		fmt.Fprintf(&b, "%12d %s\n", line.n, line.name)
	}
	return b.String()
}
