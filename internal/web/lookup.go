package web

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// maxKept is the largest message, in bytes, that a page includes so that the user can vote on it.
const maxKept = 1 << 20

// lookup shows what is known about a message or about signatures.
func (s *Site) lookup(v *view) (g.Node, error) {
	if v.Method != http.MethodPost {
		return lookupForm(""), nil
	}
	raw, text, err := given(v.Request)
	if err != nil {
		return nil, err
	}
	return examine(v, raw, text)
}

// examine looks up a message, or the signatures in a text.
func examine(v *view, raw []byte, text string) (g.Node, error) {
	ctx := v.Context()
	if raw == nil {
		if sigs, err := signatures(text); err == nil {
			verdict, err := v.node.Check(ctx, bulkhead.Query{Signatures: sigs})
			if err != nil {
				return nil, err
			}
			d := client.NewVerdict(&verdict)
			who, err := reportersOf(v, d.Findings)
			if err != nil {
				return nil, err
			}
			return g.Group{lookupForm(text), verdictOf(d), who, findings(d.Findings)}, nil
		}
		raw = []byte(text)
	}
	verdict, err := v.node.CheckMessage(ctx, raw, client.MessageOptions{})
	if err != nil {
		return nil, err
	}
	who, err := reportersOf(v, verdict.Findings)
	if err != nil {
		return nil, err
	}
	return g.Group{lookupForm(""), verdictOf(verdict), g.If(v.viewer.Report && len(raw) <= maxKept, voteForm(raw)), who,
		findings(verdict.Findings)}, nil
}

// Limits of the table of reporters: signatures that are searched for, and reports shown of each.
const (
	maxAsked    = 4
	maxReported = 50
)

// reportersOf shows the recorded voters on signatures. For a message it searches only the
// signatures of the whole text. It returns nothing if the browser may not read the history, or if
// the node keeps none.
func reportersOf(v *view, all []client.Finding) (g.Node, error) {
	var texts, parts []string // signatures with votes, of whole texts and of other things
	for i := range all {
		f := &all[i]
		switch {
		case f.Spam+f.Ham == 0 && f.Judged == "none":
		case slices.Contains(facetsOf[0].schemes, f.Signature.Scheme()):
			texts = append(texts, f.Signature.String())
		default:
			parts = append(parts, f.Signature.String())
		}
	}
	if len(texts)+len(parts) == 0 {
		return nil, nil
	}
	votes, err := votesOn(v, texts[:min(len(texts), maxAsked)])
	if err == nil && len(votes) == 0 {
		votes, err = votesOn(v, parts[:min(len(parts), maxAsked)])
	}
	if absent(err) || forbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.Section(h.H2(g.Text("Who reported it"), dim("as far as this node remembers, the latest first")),
		g.If(len(votes) == 0,
			h.P(g.Text("No reporter in the history: the reports are older than it, or came to a peer."))),
		g.If(len(votes) > 0, table(g.Group{col("Time"), col("Door"), col("What"), col("Answer"), col("By")},
			g.Map(votes, func(e admin.HistoryEntry) g.Node {
				return h.Tr(rowHead(
					link("/history?id="+strconv.FormatInt(e.ID, 10), e.Time.Format("2 Jan 15:04:05"))),
					h.Td(g.Text(e.Door)), h.Td(g.Text(e.Kind)), h.Td(h.Class("brief"), g.Text(e.Answer())),
					h.Td(g.Text(cmp.Or(e.Reporter(), "this machine"))))
			})))), nil
}

// votesOn returns the latest votes on signatures in the history, each once, the latest first.
func votesOn(v *view, signatures []string) ([]admin.HistoryEntry, error) {
	byID := make(map[int64]admin.HistoryEntry)
	for _, signature := range signatures {
		for _, kind := range []string{"spam", "ham", "revoke"} {
			page, err := v.node.History(v.Context(),
				admin.HistoryQuery{Kind: kind, Signature: signature, Limit: maxReported})
			if err != nil {
				return nil, err
			}
			for _, e := range page.Entries {
				byID[e.ID] = e
			}
		}
	}
	votes := slices.SortedFunc(maps.Values(byID), func(a, b admin.HistoryEntry) int { return cmp.Compare(b.ID, a.ID) })
	return votes[:min(len(votes), maxReported)], nil
}

// vote votes on a message that was looked up, and looks up the message again.
func (s *Site) vote(v *view) (g.Node, error) {
	v.path = "/lookup"
	if err := v.ParseForm(); err != nil {
		return nil, badForm(err)
	}
	raw, err := base64.StdEncoding.DecodeString(v.PostForm.Get("message"))
	if err != nil {
		return nil, badForm(err)
	}
	vote, err := bulkhead.ParseVote(v.PostForm.Get("vote"))
	if err != nil {
		return nil, badForm(err)
	}
	got, err := v.node.ReportMessage(v.Context(), raw, client.MessageOptions{Vote: vote})
	if err != nil {
		return nil, err
	}
	v.notice = voted(vote.String(), got)
	return examine(v, raw, "")
}

// voted describes the effect of a vote.
func voted(vote string, got *client.Receipt) string {
	return fmt.Sprintf("Voted %s: %d of %d signatures counted, %d newly on the blocklist, %d off it.", vote, got.Counted,
		got.Signatures, got.Listed, got.Revoked)
}

// badForm returns the problem with a form. The error of reading it may be one of the node.
func badForm(err error) error {
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		return p
	}
	return &client.Problem{Title: "Bad form", Status: http.StatusBadRequest, Detail: err.Error()}
}

// given returns the uploaded file of a form or, with a nil raw, the text field.
func given(r *http.Request) (raw []byte, text string, err error) {
	if err := r.ParseMultipartForm(maxKept); err != nil {
		return nil, "", badForm(err)
	}
	defer r.MultipartForm.RemoveAll()
	if f, _, err := r.FormFile("file"); err == nil {
		defer f.Close()
		if raw, err = io.ReadAll(f); err != nil {
			return nil, "", badForm(err)
		}
		if len(raw) > 0 {
			return raw, "", nil
		}
	}
	text = strings.ReplaceAll(r.FormValue("text"), "\r\n", "\n")
	if strings.TrimSpace(text) == "" {
		return nil, "", badForm(errors.New("choose a file, or paste a message or signatures"))
	}
	return nil, text, nil
}

// signatures parses signatures separated by blanks. Any other text is an error.
func signatures(text string) (sigs []bulkhead.Signature, err error) {
	for _, word := range strings.Fields(text) {
		var s bulkhead.Signature
		if err := s.UnmarshalText([]byte(word)); err != nil {
			return nil, err
		}
		sigs = append(sigs, s)
	}
	return sigs, nil
}

func lookupForm(text string) g.Node {
	return h.Form(h.Class("card"), h.Method("post"), h.Action("/lookup"), h.EncType("multipart/form-data"),
		h.Label(h.For("file"), g.Text("A message as a file (.eml)")), h.Input(h.Type("file"), h.ID("file"), h.Name("file")),
		h.Label(h.For("text"), g.Text("or the source of a message, or signatures")),
		h.Textarea(h.ID("text"), h.Name("text"), h.Rows("5"), g.Attr("spellcheck", "false"),
			h.Placeholder("pyzor/digest:da39a3ee5e6b4b0d3255bfef95601890afd80709"), g.Text(text)),
		h.Button(g.Text("Look up")),
	)
}

func voteForm(raw []byte) g.Node {
	button := func(vote, text string) g.Node {
		return h.Button(h.Name("vote"), h.Value(vote), g.Text(text))
	}
	return h.Form(h.Class("card row"), h.Method("post"), h.Action("/vote"),
		hidden("message", base64.StdEncoding.EncodeToString(raw)),
		button("spam", "It is spam"), button("ham", "It is wanted"), button("revoke", "Take it off the list"))
}

func verdictOf(d *client.Verdict) g.Node {
	return h.Section(h.Class("card"), h.H2(h.Span(h.Class("key key-"+d.Class)), g.Text(d.Class),
		dim(fmt.Sprintf("confidence %d", d.Confidence))),
		g.If(len(d.Reasons) == 0, h.P(h.Class("dim"), g.Text("Nothing is known of it."))),
		h.Ul(g.Map(d.Reasons, func(r string) g.Node { return h.Li(g.Text(r)) })),
		h.P(h.Class("dim"),
			g.Text(
				fmt.Sprintf(
					"Delivered %s times as far as was counted; %s called it spam and %s wanted. Chance that this answer is "+
						"an error of the filters: %s.",
					count(uint64(d.Sightings)), people(d.SpamVotes), people(d.HamVotes), chance(d.Error)))),
	)
}

// findings shows what is known about each single signature.
func findings(all []client.Finding) g.Node {
	return h.Details(g.If(len(all) < 10, g.Attr("open")),
		h.Summary(g.Text(fmt.Sprintf("The counts of each of %d signatures", len(all)))),
		table(g.Group{col("Signature"), col("Judged"), num("Seen"), num("Spam"), num("Ham"), num("Confidence"),
			col("First seen")},
			g.Map(all, func(f client.Finding) g.Node {
				return h.Tr(rowHead(h.Code(h.Class("sig"), g.Text(f.Signature.String()))),
					h.Td(g.Text(judged(f.Judged))),
					number(count(uint64(f.Sightings))), number(count(uint64(f.Spam))), number(count(uint64(f.Ham))),
					number(fmt.Sprint(f.Confidence)), h.Td(g.Text(date(f.First))))
			})))
}

func judged(s string) string {
	if s == "none" {
		return "–"
	}
	return s
}

func people(n uint32) string {
	if n == 1 {
		return "1 voter"
	}
	return count(uint64(n)) + " voters"
}
