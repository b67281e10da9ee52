package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// History gives access to the recorded checks and votes of a node. Errors wrap the sentinels of
// package bulkhead, or are a [client.Problem]. Methods may be called concurrently.
type History interface {
	// History returns a page of entries. Its error for an invalid query wraps bulkhead.ErrMalformed.
	History(ctx context.Context, q admin.HistoryQuery) (admin.HistoryPage, error)
	// HistoryEntry returns one entry with its signatures; ok is false if there is none.
	HistoryEntry(ctx context.Context, id int64) (e admin.HistoryEntry, ok bool, err error)
	// Explain returns the present verdict on the message of an entry, which counts nothing; ok is false if
	// there is no such entry.
	Explain(ctx context.Context, id int64) (v client.Verdict, ok bool, err error)
	// Remembered returns the signatures of a message that a reporter may vote on, by its
	// Message-ID or else by an entry. Of several messages with one Message-ID those count that were
	// delivered to the reporter's user, or else those that were delivered, or else those that were checked;
	// of these it returns the latest with the lowest standing. Its error wraps [ErrNotRemembered] or [ErrWhite].
	Remembered(ctx context.Context, who bulkhead.Reporter, messageID string, entry int64) ([]bulkhead.Signature, error)
	// Waves returns groups of messages.
	Waves(ctx context.Context, q admin.WaveQuery) (admin.WavePage, error)
	// Wave returns one group with the verdict on it; ok is false if there is none.
	Wave(ctx context.Context, id int64) (w admin.WaveDetail, ok bool, err error)
}

// Errors of [History].
var (
	ErrNotRemembered = errors.New("no such message is remembered")
	ErrWhite         = errors.New("a whitelist has the message: nothing was counted")
)

// Audit records the actions of administrators. Its methods may be called concurrently.
type Audit interface {
	// Append writes an entry, whose ID and Time it sets.
	Append(admin.AuditEntry) error
	// Read returns a page of entries.
	Read(admin.AuditQuery) (admin.AuditPage, error)
}

func (s *Server) historyPage(r *request) (any, error) {
	q := admin.HistoryQuery{
		Door: r.query.Get("door"), Kind: r.query.Get("kind"), Class: r.query.Get("class"), Outcome: r.query.Get("outcome"),
		Reporter: r.query.Get("reporter"),
		Domain:   r.query.Get("domain"), From: r.query.Get("from"), Link: r.query.Get("link"),
		MessageID: r.query.Get("message_id"), Signature: r.query.Get("signature"),
	}
	var err error
	if q.Since, q.Until, q.Before, q.Limit, err = pageOf(r.query); err != nil {
		return nil, err
	}
	h, err := s.remembers()
	if err != nil {
		return nil, err
	}
	page, err := h.History(r.Context(), q)
	if page.Entries == nil {
		page.Entries = []admin.HistoryEntry{}
	}
	return &page, err
}

func (s *Server) remembers() (History, error) {
	if s.opts.History == nil {
		return nil, newProblem(http.StatusNotFound, "this node keeps no history: see [history] in its configuration")
	}
	return s.opts.History, nil
}

// pageOf reads the parameters that every page of a record has.
func pageOf(q url.Values) (since, until time.Time, before int64, limit int, err error) {
	for _, t := range []struct {
		name string
		to   *time.Time
	}{{"since", &since}, {"until", &until}} {
		if text := q.Get(t.name); text != "" {
			if *t.to, err = time.Parse(time.RFC3339, text); err != nil {
				return since, until, 0, 0, fmt.Errorf("%w: %s %.60q is not a time like 2006-01-02T15:04:05Z", bulkhead.ErrMalformed,
					t.name, text)
			}
		}
	}
	if text := q.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before <= 0 {
			return since, until, 0, 0, fmt.Errorf("%w: before %.40q is not the next of a page", bulkhead.ErrMalformed, text)
		}
	}
	return since, until, before, int(number(q, "limit")), nil
}

func (s *Server) historyEntry(r *request) (any, error) {
	return remembered(s, r, History.HistoryEntry, "entry %d is not in the history")
}

func (s *Server) explain(r *request) (any, error) {
	return remembered(s, r, History.Explain, "entry %d is not in the history")
}

// remembered answers with the entry or wave that the ID in the path names. missing is the text of
// the error if there is none.
func remembered[T any](s *Server, r *request, get func(History, context.Context, int64) (T, bool, error),
	missing string) (any, error) {
	h, err := s.remembers()
	if err != nil {
		return nil, err
	}
	id, err := r.entryID()
	if err != nil {
		return nil, err
	}
	found, ok, err := get(h, r.Context(), id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, newProblem(http.StatusNotFound, fmt.Sprintf(missing, id))
	}
	return &found, nil
}

// entryID returns the ID in the path.
func (r *request) entryID() (int64, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("%w: entry %.40q is not a number", bulkhead.ErrMalformed, text)
	}
	return id, nil
}

// reportMessageID votes on the remembered message with a Message-ID.
func (s *Server) reportMessageID(r *request) (any, error) {
	v, err := one[client.MessageVote](r)
	if err != nil {
		return nil, err
	}
	return s.tellRemembered(r, v.MessageID, 0, admin.RememberedVote{Vote: v.Vote, User: v.User, ID: v.ID})
}

// reportEntry votes on the message of an entry. Other reporters do not see the history, and could vote on the mail of
// others by guessing numbers.
func (s *Server) reportEntry(r *request) (any, error) {
	if err := s.maySpeak(r); err != nil {
		return nil, err
	}
	v, err := one[admin.RememberedVote](r)
	if err != nil {
		return nil, err
	}
	id, err := r.entryID()
	if err != nil {
		return nil, err
	}
	return s.tellRemembered(r, "", id, v)
}

// rememberedProblem maps the errors of [History] to statuses.
func rememberedProblem(err error) error {
	for known, status := range map[error]int{
		ErrNotRemembered: http.StatusNotFound, ErrWhite: http.StatusUnprocessableEntity,
	} {
		if errors.Is(err, known) {
			return newProblem(status, known.Error())
		}
	}
	return err
}

// tellRemembered votes on a message by its recorded signatures, which it finds by the Message-ID or
// else by an entry.
func (s *Server) tellRemembered(r *request, messageID string, entry int64, v admin.RememberedVote) (any, error) {
	h, err := s.remembers()
	if err != nil {
		return nil, err
	}
	who := r.who
	who.User = v.User
	sigs, err := h.Remembered(r.Context(), who, messageID, entry)
	if err != nil {
		return nil, rememberedProblem(err)
	}
	vote, err := r.parseVote(v.Vote)
	if err != nil {
		return nil, err
	}
	rep := bulkhead.Report{Signatures: sigs, Vote: vote, Reporter: who, ID: v.ID}
	rep.Source.MessageID = messageID
	if err := checkID(rep.ID); err != nil {
		return nil, err
	}
	return s.tell(r, rep)
}

func (s *Server) auditPage(r *request) (any, error) {
	q := admin.AuditQuery{Account: r.query.Get("account"), Action: r.query.Get("action")}
	var err error
	if q.Since, q.Until, q.Before, q.Limit, err = pageOf(r.query); err != nil {
		return nil, err
	}
	if s.opts.Audit == nil {
		return nil, newProblem(http.StatusNotFound, "this server keeps no record of administration")
	}
	page, err := s.opts.Audit.Read(q)
	return &page, err
}

// record writes an entry of the audit record. did holds attributes as in a log line, without
// secrets.
func (s *Server) record(e admin.AuditEntry, did []any, err error) {
	if s.opts.Audit == nil || e.Account == "" { // strangers must not fill the record
		return
	}
	e.Door = doorName
	e.About = make(map[string]string)
	for i := 0; i+1 < len(did); i += 2 {
		if t, ok := did[i+1].(time.Time); ok {
			did[i+1] = t.UTC().Format(time.RFC3339)
		}
		e.About[fmt.Sprint(did[i])] = fmt.Sprint(did[i+1])
	}
	if err != nil {
		e.Error = problem(err).Detail
	}
	if err := s.opts.Audit.Append(e); err != nil {
		s.opts.Log.Error("record of administration cannot be written", "action", e.Action, "err", err,
			"consequence", "this action is not in it")
	}
}

// historyParams are the parameters of /v1/history.
func historyParams() []*huma.Param {
	text := func(name, doc string, limit int) *huma.Param { return bounded(queryParam(name, "string", doc), limit) }
	kind := queryParam("kind", "string", "A check, or the vote of a report.")
	kind.Schema.Enum = []any{"check", "sighting", "spam", "ham", "revoke"}
	class := queryParam("class", "string", "Answer to a check.")
	class.Schema.Enum = []any{"unknown", "good", "bulk", "suspected", "spam"}
	outcome := queryParam("outcome", "string", "Outcome of the message: caught (answered with spam or suspected), "+
		"reported (called spam by a person), complained (called wanted, or taken off), waiting (for a second voice).")
	outcome.Schema.Enum = []any{"caught", "reported", "complained", "waiting"}
	return append(pageParams(),
		text("door", "Key of the door in the configuration.", 64), kind, class, outcome,
		text("reporter", "Account, user or network of the reporter.", 255),
		text("domain", "Domain of the sender or of a link, or one above it.", 255),
		text("from", "Domain of the sender, or one above it.", 255),
		text("link", "Domain of a link, or one above it.", 255),
		text("message_id", "Message-ID, with or without its angle brackets.", maxName),
		text("signature", "SCHEME:HEX.", 200))
}

// pageParams are the parameters that every page of a record has.
func pageParams() []*huma.Param {
	return []*huma.Param{
		bounded(queryParam("since", "string", "Time of the oldest entry, for example 2006-01-02T15:04:05Z."), 64),
		bounded(queryParam("until", "string", "Time before which the latest entry is."), 64),
		bounded(queryParam("before", "string", "The next of the page before."), 32),
		queryParam("limit", "integer", "Most entries."),
	}
}

func auditParams() []*huma.Param {
	return append(pageParams(), bounded(queryParam("account", "string", "Who did it."), 128),
		bounded(queryParam("action", "string", "ID of the operation."), 64))
}
