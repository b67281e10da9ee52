package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	pyzordigest "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/digest/razor"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/testing/matrix"
	"github.com/bulkhead-mail/bulkhead/pyzor"
	"github.com/bulkhead-mail/bulkhead/razor2"
)

// matrixDoors are the doors of a node whose clients report and check.
func matrixDoors(t *testing.T, n *Node) []matrix.Door {
	base := address(t, n, "http")
	razorClient, err := razor2.Dial(t.Context(), address(t, n, "razor2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { razorClient.Close() })
	ana := razor2.Credentials{User: "ana", Password: "secret"}
	if _, err := razorClient.Register(t.Context(), ana); err != nil {
		t.Fatal(err)
	}
	if err := razorClient.Login(t.Context(), ana); err != nil {
		t.Fatal(err)
	}
	// A server's ID: such a client may also DELETE.
	dccClient, err := dcc.Dial(t.Context(), address(t, n, "dcc"), &dcc.Options{ID: 1000, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dccClient.Close() })
	fuzzyClient, err := fuzzy.Dial(t.Context(), address(t, n, "fuzzy"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fuzzyClient.Close() })
	pyzorClient, err := pyzor.Dial(t.Context(), address(t, n, "pyzor"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pyzorClient.Close() })
	return []matrix.Door{
		matrixHTTP(t.Context(), base), matrixRazor(t.Context(), razorClient),
		matrixPyzor(t.Context(), pyzorClient),
		matrixDCC(t.Context(), dccClient), matrixFuzzy(t.Context(), fuzzyClient),
	}
}

func post(ctx context.Context, url string, raw []byte) (map[string]any, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "message/rfc822")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return answer, json.Unmarshal(text, &answer)
}

func matrixHTTP(ctx context.Context, base string) matrix.Door {
	vote := func(path string) func([]byte) error {
		return func(raw []byte) error { _, err := post(ctx, base+path, raw); return err }
	}
	return matrix.Door{Name: "HTTP", Report: vote("/v1/report"), Unlearn: vote("/v1/revoke"),
		Known: func(raw []byte) (matrix.Word, error) {
			v, err := post(ctx, base+"/v1/check", raw)
			if class := fmt.Sprint(v["class"]); class == "spam" || class == "suspected" {
				return matrix.Word(class), err
			}
			return matrix.Unknown, err
		}}
}

func matrixRazor(ctx context.Context, c *razor2.Client) matrix.Door {
	sums := func(raw []byte) (sigs []bulkhead.Signature, err error) {
		parts, err := razor.Parts(ctx, raw)
		for i := range parts {
			sigs = append(sigs, parts[i].E4)
		}
		return sigs, err
	}
	return matrix.Door{Name: "Razor", Report: func(raw []byte) error {
		header, parts := razorParts(raw)
		return c.Report(ctx, header, parts)
	}, Unlearn: func(raw []byte) error {
		sigs, err := sums(raw)
		if err != nil {
			return err
		}
		return c.Revoke(ctx, sigs...)
	}, Known: func(raw []byte) (matrix.Word, error) {
		best := matrix.Unknown
		parts, err := razor.Parts(ctx, raw)
		if err != nil {
			return best, err
		}
		// logic_method 4 of the client: one spam part is enough. SpamAssassin has a rule for
		// confidences from 51 on.
		for i := range parts {
			answers, err := c.Check(ctx, append([]bulkhead.Signature{parts[i].E4}, parts[i].E8...)...)
			if err != nil {
				return best, err
			}
			for _, a := range answers {
				switch {
				case a.Spam && a.Confidence > 50:
					best = matrix.Spam
				case a.Spam && best == matrix.Unknown:
					best = matrix.Suspected
				}
			}
		}
		return best, nil
	}}
}

// razorParts returns the parts that razor-report sends of this test's mails.
func razorParts(raw []byte) (header []byte, parts [][]byte) {
	const agent = "X-Razor2-Agent: test\n"
	head, body, _ := strings.Cut(string(raw), "\n\n")
	if !strings.Contains(head, "boundary=") {
		fields := head[strings.Index(head, "Content-Type:"):]
		return []byte(head + "\n"), [][]byte{[]byte(agent + fields + "\n\n" + body)}
	}
	for _, part := range strings.Split(body, "--=cut")[1:] {
		if !strings.HasPrefix(part, "--") {
			parts = append(parts, []byte(agent+strings.TrimSuffix(strings.TrimPrefix(part, "\n"), "\n")))
		}
	}
	return []byte(head + "\n"), parts
}

func matrixPyzor(ctx context.Context, c *pyzor.Client) matrix.Door {
	do := func(op pyzor.Op) func([]byte) (*pyzor.Reply, error) {
		return func(raw []byte) (*pyzor.Reply, error) {
			sigs, err := pyzordigest.Signatures(ctx, raw)
			if err != nil {
				return nil, err
			}
			r, err := c.Do(ctx, op, sigs...)
			if err == nil {
				err = r.Err()
			}
			return r, err
		}
	}
	vote := func(op pyzor.Op) func([]byte) error {
		return func(raw []byte) error { _, err := do(op)(raw); return err }
	}
	return matrix.Door{Name: "Pyzor", Report: vote(pyzor.OpReport), Unlearn: vote(pyzor.OpWhitelist),
		Known: func(raw []byte) (matrix.Word, error) {
			r, err := do(pyzor.OpCheck)(raw)
			if err != nil {
				return matrix.Unknown, err
			}
			n, err := r.Count("Count")
			switch ham, err2 := r.Count("WL-Count"); {
			case err != nil || err2 != nil || n == 0 || ham > 0:
				return matrix.Unknown, errors.Join(err, err2) // for the pyzor command
			case n < 5:
				return matrix.Suspected, nil
			}
			return matrix.Spam, nil // also for SpamAssassin by its defaults
		}}
}

func matrixDCC(ctx context.Context, c *dcc.Client) matrix.Door {
	sums := func(raw []byte) (all []dcc.Checksum, err error) {
		for _, rules := range []dccsum.Rules{dccsum.Rules2} {
			got, err := dccsum.Sums(ctx, raw, dccsum.Options{Rules: rules})
			if err != nil {
				return nil, err
			}
			for _, s := range got {
				if s.Type == dccsum.TypeBody || s.Type == dccsum.TypeFuz1 {
					all = append(all, dcc.Checksum{Type: s.Type, Sum: s.Sum})
				}
			}
		}
		return all, nil
	}
	return matrix.Door{Name: "dccproc", Report: func(raw []byte) error {
		all, err := sums(raw)
		if err == nil {
			_, err = c.Report(ctx, 1, true, all)
		}
		return err
	}, Unlearn: func(raw []byte) error {
		all, err := sums(raw)
		for _, sum := range all {
			if err == nil {
				err = c.Delete(ctx, sum)
			}
		}
		return err
	}, Known: func(raw []byte) (matrix.Word, error) {
		all, err := sums(raw)
		if err != nil {
			return matrix.Unknown, err
		}
		totals, err := c.Query(ctx, all)
		for _, total := range totals {
			if total.Current == dcc.Many {
				return matrix.Spam, err
			}
		}
		return matrix.Unknown, err
	}}
}

func matrixFuzzy(ctx context.Context, c *fuzzy.Client) matrix.Door {
	h := rspamd.NewHasher("", "", rspamd.MumHash)
	each := func(raw []byte, do func(digest [64]byte, shingles *[32]uint64) error) error {
		hashes, err := h.Hashes(ctx, raw, rspamd.Policy{AllTypes: true})
		for i := range hashes {
			if err == nil {
				sig := hashes[i].Signature()
				err = do([64]byte(sig.Sum()), hashes[i].Shingles)
			}
		}
		return err
	}
	return matrix.Door{Name: "fuzzy", Report: func(raw []byte) error {
		return each(raw, func(digest [64]byte, shingles *[32]uint64) error { return c.Write(ctx, digest, shingles, 1, 10) })
	}, Unlearn: func(raw []byte) error {
		return each(raw, func(digest [64]byte, shingles *[32]uint64) error { return c.Delete(ctx, digest, shingles) })
	}, Known: func(raw []byte) (best matrix.Word, err error) {
		best = matrix.Unknown
		err = each(raw, func(digest [64]byte, shingles *[32]uint64) error {
			r, err := c.Check(ctx, digest, shingles)
			switch found := r.OK() && r.Flag == 1; {
			case found && r.Value > 5:
				best = matrix.Spam
			case found && best == matrix.Unknown:
				best = matrix.Suspected
			}
			return err
		})
		return best, err
	}}
}

func newMatrix(t *testing.T) *matrix.Matrix {
	n, _ := start(t, Options{Config: everyDoor(t,
		"[http]\nanonymous_report = \"loopback\"\n[limits]\nrequests_per_second = 0\n"+
			"[pyzor]\nanonymous = [\"check\", \"report\", \"whitelist\"]\n[[dcc.clients]]\nid = 1000\n"+
			"password = \"secret\"\n"), Dir: t.TempDir()})
	return &matrix.Matrix{Doors: matrixDoors(t, n), WholeAfter: map[string]matrix.Word{
		"HTTP": matrix.Spam, "dccproc": matrix.Spam, "fuzzy": matrix.Suspected, "Razor": matrix.Suspected,
		"Pyzor": matrix.Suspected,
	}}
}

func TestMatrix(t *testing.T) { newMatrix(t).Copies(t) }

func TestMatrixOrders(t *testing.T) { newMatrix(t).Orders(t) }

func TestMatrixSeenAfter(t *testing.T) { newMatrix(t).SeenAfter(t) }

func TestMatrixUnlearns(t *testing.T) { newMatrix(t).Unlearns(t) }
