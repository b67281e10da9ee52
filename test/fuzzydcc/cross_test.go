//go:build interop

package fuzzydcc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestReportsCrossOver: what is reported whole over HTTP or through dccifd is known to rspamd's
// fuzzy_check, near copies included, and what rspamd learns is suspected over HTTP until the same
// mail is reported.
func TestReportsCrossOver(t *testing.T) {
	port, web, ifd := nodetest.FreePort(t), nodetest.Address(t), nodetest.Address(t)
	data := startNode(t,
		fmt.Sprintf("[listen]\nhttp = %q\ndccifd = %q\nfuzzy = \"127.0.0.1:%d\"\n[dccifd]\nthresholds = [\"CMN,many\"]\n",
			web, ifd, port))
	for _, address := range []string{web, ifd, fmt.Sprintf("127.0.0.1:%d", port)} {
		nodetest.AwaitTCP(t, address)
	}
	r := startRspamd(t, "fuzzy_check", fuzzyModule(port, ""))
	door := admin.New("http://"+web, "")
	known := func(when, message string, want bool) {
		t.Helper()
		if _, got := r.scan(message)["FUZZY_DENIED"]; got != want {
			t.Errorf("%s: rspamd knows it: %v, want %v", when, got, want)
		}
	}
	garden := mail("seed", "1", gardenText)
	nearCopy := mail("seeds", "2", strings.ReplaceAll(strings.ReplaceAll(gardenText, "grandmother", "uncle"),
		"cheese", "apples"))
	known("before any report", garden, false)
	if _, err := door.ReportMessage(t.Context(), []byte(garden), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	known("after a report over HTTP", garden, true)
	known("a near copy of it", nearCopy, true)
	if exact, near := r.scan(garden)["FUZZY_DENIED"].Score,
		r.scan(nearCopy)["FUZZY_DENIED"].Score; exact < 0.98*12 || near > 0.6*12 || near < 0.1*12 {
		t.Errorf("listed, of 12 a mail scores %v, its near copy %v", exact, near)
	}
	if _, err := door.ReportMessage(t.Context(), []byte(garden),
		client.MessageOptions{Vote: bulkhead.Revocation}); err != nil {
		t.Fatal(err)
	}
	known("after its revocation", garden, false)

	harbour := mail("harbour", "4",
		strings.Repeat(
			"the harbour master keeps a book in which every boat that comes in before noon is written with its length ", 4)+
			"and when the book is full he takes it to the town hall where it lies beside two hundred others that nobody reads\n")
	known("before a report to dccifd", harbour, false)
	if reply := dccifdTalk(t, ifd, "header spam", harbour); !strings.Contains(reply, "Body=many") {
		t.Fatalf("dccifd: %q", reply)
	}
	known("after a report to dccifd", harbour, true)

	mill := mail("mill", "5", strings.ReplaceAll(gardenText, "potatoes", "onions")+
		strings.Repeat("the miller counts his sacks twice before he signs for them at the gate ", 5)+"\n")
	r.learn("/fuzzyadd", mill, 1, 10)
	judged := func(want bulkhead.Class) {
		t.Helper()
		v, err := door.CheckMessage(t.Context(), []byte(mill), client.MessageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v.Class != want.String() {
			t.Errorf("learnt by rspamd: %+v, want %v over HTTP", v, want)
		}
	}
	// rspamd has sent only its digests of the text, and with one voice.
	judged(bulkhead.ClassSuspected)
	token := nodetest.Output(t, "", nodetest.Binary(t), "user", "add", "ann", "--role", "trusted", "--server", door.Server,
		"--data", data)
	ann := admin.New(door.Server, strings.TrimSpace(token))
	if _, err := ann.ReportMessage(t.Context(), []byte(mill), client.MessageOptions{Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	judged(bulkhead.ClassSpam)
}
