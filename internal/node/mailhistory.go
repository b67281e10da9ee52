package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/audit"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// historyFile is the file of checks and votes, in the data folder.
const historyFile = "history.db"

// bookKey returns the key of the hashes in the history. Only this node has it.
func bookKey(seal [32]byte) (key [32]byte) {
	h := hmac.New(sha256.New, seal[:])
	h.Write([]byte("bulkhead history"))
	copy(key[:], h.Sum(nil))
	return key
}

// startHistory is the stage of the history and of the record of administration.
func (n *Node) startHistory(_ context.Context, st *stage) error {
	cfg := n.cfg.Load().History
	var err error
	if n.audit, err = audit.Open(n.dir, cfg.Audit, clock.Now); err != nil {
		return err
	}
	n.failures.Told = n.loginFailed
	n.registry.MustRegister(newHistoryCollector(n.core))
	n.openSums(st)
	st.close = func(context.Context) error {
		n.closeSums()
		if n.mailbook == nil {
			return nil
		}
		return n.mailbook.Close()
	}
	path := filepath.Join(n.dir, historyFile)
	if cfg.Bytes == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.log.Error("the history is off, and its file cannot be removed", "err", err)
		}
		return nil
	}
	n.mailbook, err = logbook.Open(path, logbook.Options{
		MaxBytes: cfg.Bytes, MaxAge: time.Duration(cfg.Days) * 24 * time.Hour, Key: n.bookKey, Subjects: cfg.Subjects,
		Near: n.cfg.Load().Tally.NearMatch, Common: signature.NeverList(), Space: n.spaceOf, Now: clock.Now, Log: n.log,
	})
	if err != nil {
		return err
	}
	st.tasks = append(st.tasks, task{name: "history of mail", run: n.mailbook.Run})
	if n.recent != nil {
		n.recall()
	}
	return nil
}

// spaceOf is showsTo for the history.
func (n *core) spaceOf(who bulkhead.Reporter) (string, bool) {
	space, ok := n.showsTo(who)
	return string(space), ok
}

// houseFor returns the clearinghouse for a door.
func (n *core) houseFor(door string) bulkhead.Counter {
	house := n.house
	if n.mailbook != nil {
		house = logbook.NewHouse(house, n.mailbook, door)
	}
	counted := &countedHouse{Counter: house}
	n.counted[door] = counted
	return counted
}

// maxRecalled is how many entries are read into the memory of whole messages at the start: more
// than fill it by default.
const maxRecalled = 50_000

// recall fills the memory of whole messages with the messages of the history.
func (n *core) recall() {
	err := n.mailbook.Latest(maxRecalled, func(e *logbook.Entry) {
		if sigs := e.Signatures(); !e.White && e.Space != logbook.NoSpace && recent.Whole(sigs) {
			n.recent.Recall(sigs, recent.Space(e.Space), networkIn(sigs), e.Time())
		}
	})
	if err != nil {
		n.log.Warn("messages seen before the start are not remembered", "err", err)
	}
}

// networkIn returns the network that delivered a message, taken from its signatures, in the form
// that [recent.House] uses.
func networkIn(sigs []bulkhead.Signature) string {
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Network {
			if p, err := netip.ParsePrefix(sigs[i].Name()); err == nil {
				return p.Addr().String()
			}
		}
	}
	return ""
}

// loginFailed records failed log-ins, as often as the log has a line about them.
func (n *Node) loginFailed(door string, network netip.Addr, failures int) {
	n.record(admin.AuditEntry{Door: door, From: network.String(), Action: "loginFailed", Error: "wrong token or password",
		About: map[string]string{"failures": strconv.Itoa(failures)}})
}

// Reloaded records a reload of the configuration by a signal, and its outcome.
func (n *Node) Reloaded(changed, restart []string, err error) {
	e := admin.AuditEntry{Door: "signal", Action: "reload", About: map[string]string{}}
	if len(changed) > 0 {
		e.About["changed"] = strings.Join(changed, " ")
	}
	if len(restart) > 0 {
		e.About["need_restart"] = strings.Join(restart, " ")
	}
	if err != nil {
		e.Error = err.Error()
	}
	n.record(e)
}

func (n *Node) record(e admin.AuditEntry) {
	if err := n.audit.Append(e); err != nil {
		n.log.Error("not recorded", "action", e.Action, "err", err)
	}
}

// RecordCommand records a command's action on the data folder of a node that does not run. An error
// is not worth a failure of the command.
func RecordCommand(dir string, e admin.AuditEntry) error {
	if err := ownFolder(dir); err != nil {
		return err
	}
	l, err := audit.Open(dir, math.MaxInt64, clock.Now)
	if err != nil {
		return err
	}
	e.Door = "command"
	return l.Append(e)
}

// mailHistory is the history for the API.
type mailHistory struct{ *core }

// remembersMail returns the history, nil for none.
func (n *core) remembersMail() api.History {
	if n.mailbook == nil {
		return nil
	}
	return mailHistory{n}
}

// History implements [api.History].
func (h mailHistory) History(ctx context.Context, q admin.HistoryQuery) (admin.HistoryPage, error) {
	want := logbook.Query{
		Since: q.Since, Until: q.Until, Door: q.Door, Reporter: q.Reporter, Domain: q.Domain,
		Message: h.mailbook.MessageID(q.MessageID), Before: uint64(max(0, q.Before)), Limit: q.Limit,
	}
	if q.Kind != "" {
		kind, err := logbook.ParseKind(q.Kind)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Kind = &kind
	}
	if q.Class != "" {
		class, err := bulkhead.ParseClass(q.Class)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Class = &class
	}
	if q.Signature != "" {
		sig, err := bulkhead.ParseSignature(q.Signature)
		if err != nil {
			return admin.HistoryPage{}, err
		}
		want.Signature = &sig
	}
	page, err := h.mailbook.Search(ctx, want)
	if err != nil {
		return admin.HistoryPage{}, err
	}
	out := admin.HistoryPage{Entries: make([]admin.HistoryEntry, len(page.Entries)), Next: int64(page.Next),
		Read: page.Read}
	for i := range page.Entries {
		out.Entries[i] = historyEntry(&page.Entries[i])
		out.Entries[i].Signatures = nil
	}
	return out, nil
}

// HistoryEntry implements [api.History].
func (h mailHistory) HistoryEntry(_ context.Context, id int64) (admin.HistoryEntry, bool, error) {
	e, ok, err := h.mailbook.Get(uint64(max(0, id)))
	return historyEntry(&e), ok, err
}

func historyEntry(e *logbook.Entry) admin.HistoryEntry {
	sigs := e.Signatures()
	out := admin.HistoryEntry{
		ID: int64(e.ID), Time: e.Time(), Door: e.Door, Kind: e.Kind.String(), Confidence: e.Confidence,
		Whitelisted: e.White, Trap: e.Trap, Reasons: append([]string{}, e.Reasons...), Count: e.Count, Listed: e.Listed,
		Revoked: e.Revoked,
		Account: e.Account, User: e.User, Network: e.Network, From: e.From, Domains: append([]string{}, e.Domains...),
		MessageID: e.Message != logbook.MessageID{}, Subject: e.Subject, SignatureCount: len(sigs), Signatures: sigs,
	}
	if e.Kind == logbook.Checked {
		out.Class = e.Class.String()
	}
	return out
}

// Remembered implements [api.History].
func (h mailHistory) Remembered(ctx context.Context, who bulkhead.Reporter, messageID string,
	entry int64) ([]bulkhead.Signature, error) {
	space, ok := h.spaceOf(who)
	if !ok {
		return nil, fmt.Errorf("%w: this reporter has no vote", bulkhead.ErrForbidden)
	}
	found, err := h.find(ctx, messageID, entry)
	if err != nil {
		return nil, err
	}
	var best []bulkhead.Signature
	text, white := bulkhead.Signature{}, false
	for i := range found {
		// As with digests, see package recent. A user trusted by the administrator may name any
		// entry, and sees its reporter.
		if e := &found[i]; e.Space != "" && e.Space != space && (space != "" || entry == 0) {
			continue
		}
		white = white || found[i].White
		sigs := found[i].Signatures()
		exact := textOf(sigs)
		if text.Valid() && exact.Valid() && exact != text {
			return nil, api.ErrSeveral
		}
		if exact.Valid() && !text.Valid() {
			text, best = exact, nil
		}
		if exact == text && len(sigs) > len(best) {
			best = sigs
		}
	}
	switch {
	case white:
		return nil, api.ErrWhite
	case len(best) == 0:
		return nil, api.ErrNotRemembered
	}
	return best, nil
}

// find returns entries of one message.
func (h mailHistory) find(ctx context.Context, messageID string, entry int64) ([]logbook.Entry, error) {
	if messageID == "" {
		e, ok, err := h.mailbook.Get(uint64(max(0, entry)))
		if !ok || err != nil {
			return nil, err
		}
		return []logbook.Entry{e}, nil
	}
	id := h.mailbook.MessageID(messageID)
	if id == (logbook.MessageID{}) {
		return nil, fmt.Errorf("%w: empty Message-ID", bulkhead.ErrMalformed)
	}
	page, err := h.mailbook.Search(ctx, logbook.Query{Message: id})
	return page.Entries, err
}

// textOf returns the signature of a message's whole text, invalid for none.
func textOf(sigs []bulkhead.Signature) bulkhead.Signature {
	for i := range sigs {
		if sigs[i].Scheme() == bulkhead.Exact {
			return sigs[i]
		}
	}
	return bulkhead.Signature{}
}

// A historyCollector collects the metrics of the history.
type historyCollector struct {
	core                                                          *core
	entries, bytes, written, lost, unaudit, unwritten, unreadable *prometheus.Desc
}

func newHistoryCollector(c *core) *historyCollector {
	return &historyCollector{
		core:    c,
		entries: prometheus.NewDesc("bulkhead_history_entries", "Checks and votes in the history.", nil, nil),
		bytes:   prometheus.NewDesc("bulkhead_history_bytes", "Bytes of the history that are in use.", nil, nil),
		written: prometheus.NewDesc("bulkhead_history_written_total", "Entries written to the history.", nil, nil),
		lost: prometheus.NewDesc("bulkhead_history_lost_total",
			"Entries that the history lost: because more came than it takes (full), or because they could not be written (write).",
			[]string{"why"}, nil),
		unaudit: prometheus.NewDesc("bulkhead_audit_lost_total",
			"Entries of the record of administration that could not be written.", nil, nil),
		unwritten: prometheus.NewDesc("bulkhead_sums_unwritten_total",
			"Times that the numbers of verdicts over time could not be written. They are tried again, and are lost if the node ends before.",
			nil, nil),
		unreadable: prometheus.NewDesc("bulkhead_sums_damaged_total",
			"Parts of the numbers of verdicts over time that could not be read, and are lost.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *historyCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.entries, c.bytes, c.written, c.lost, c.unaudit, c.unwritten, c.unreadable} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *historyCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(c.unaudit, prometheus.CounterValue, float64(c.core.audit.Lost.Load()))
	ch <- prometheus.MustNewConstMetric(c.unwritten, prometheus.CounterValue, float64(c.core.sums.Stats.Failed.Load()))
	ch <- prometheus.MustNewConstMetric(c.unreadable, prometheus.CounterValue, float64(c.core.sums.Stats.Damaged.Load()))
	if c.core.mailbook == nil {
		return
	}
	state, s := c.core.mailbook.State(), &c.core.mailbook.Stats
	ch <- prometheus.MustNewConstMetric(c.entries, prometheus.GaugeValue, float64(state.Entries))
	ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(state.Bytes))
	ch <- prometheus.MustNewConstMetric(c.written, prometheus.CounterValue, float64(s.Written.Load()))
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(s.Lost.Load()), "full")
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(s.Failed.Load()), "write")
}
