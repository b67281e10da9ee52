//go:build interop

package web

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// TestAccounts: an account is made, given a role, a password and a token, and closed, each with a way
// back or a question.
func TestAccounts(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	user := func(name string) admin.User {
		t.Helper()
		users, err := n.root.Users(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range users {
			if u.Name == name {
				return u
			}
		}
		return admin.User{}
	}
	b.visit("/people")
	b.run(chromedp.Click("details.card summary", chromedp.ByQuery))
	b.fill("#new", "dora")
	b.fill("#role", "trusted")
	b.press("Add")
	b.await("Account dora is made.")
	b.await("Token of dora")
	b.press("Copy")
	b.awaitThat("a token that is copied or selected", `["Copied", "Selected"].includes(
		document.querySelector("[data-copy=token]").innerText)`)
	b.press("Undo")
	b.await("Account dora is removed again.")
	if u := user("dora"); u.Name != "" {
		t.Errorf("dora is still there: %+v", u)
	}

	b.visit("/people")
	b.follow("bob")
	b.fill("#role", "trusted")
	b.press("Set role bob role")
	b.await("The role of bob is trusted.")
	b.press("Undo")
	b.await("The role of bob is reporter.")
	if u := user("bob"); u.Role != "reporter" {
		t.Errorf("bob is %q, want the former role", u.Role)
	}
	b.visit("/people?name=bob")
	b.fill("#secret-pages", "seven lamps in the hall")
	b.press("Set bob pages")
	b.await("The secret of bob for pages is set.")
	b.visit("/people?name=bob")
	b.press("Make a new token bob token")
	b.await("Make a new token for bob?")
	b.await("stops working at once")
	b.press("Make a new token")
	b.await("Account bob has a new token.")

	b.visit("/people")
	b.press("Close bob")
	b.await("Close the account bob?")
	if user("bob").Closed {
		t.Error("bob was closed by the question")
	}
	b.press("Close account")
	b.await("Account bob is closed.")
	if !user("bob").Closed {
		t.Error("bob is open")
	}
	b.well("accounts")
}

// TestExpel: a peer gets another weight, which is undone, and is expelled after a question that has the
// numbers.
func TestExpel(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	peers := func() []admin.Peer {
		t.Helper()
		all, err := n.root.Peers(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	key := peers()[0].Key
	b.visit("/peers")
	b.fill(`[aria-label="Weight of mx2.example.org"]`, "0.25")
	b.press("Set " + key)
	b.await("The peer's word is worth 0.25 from now on.")
	b.press("Undo")
	b.await("The peer's word is worth 0.50 again.")
	b.visit("/peers")
	b.press("Evict " + key)
	b.await("Evict mx2.example.org?")
	b.await("Evict drops what mx2.example.org counted: ")
	if len(peers()) != 1 {
		t.Fatal("the question expelled the peer")
	}
	b.follow("Cancel")
	b.press("Evict " + key)
	b.await("Evict mx2.example.org?")
	b.press("Evict")
	b.await("The peer is dropped")
	if all := peers(); len(all) != 0 {
		t.Errorf("%d peers, want none", len(all))
	}
	b.visit("/people")
	b.await("evicted a peer")
	b.well("expel")
}

// TestLists: entries are tried, added, undone and removed on the page.
func TestLists(t *testing.T) {
	n := full(t)
	b := open(t, n.url)
	b.logIn(n)
	found := func(entry string) int {
		t.Helper()
		all, err := n.root.FindInLists(context.Background(), entry)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	b.visit("/rules")
	b.fill("#entries", "shop.example.org")
	b.run(chromedp.Click("#dry", chromedp.ByQuery))
	b.press("Remove from the list")
	b.await("A dry run on the list bad, which changes nothing: 1 entry removed.")
	if found("shop.example.org") != 1 {
		t.Fatal("the dry run took the entry out")
	}
	b.press("Remove from the list")
	b.await("List bad: 1 entry removed.")
	if found("shop.example.org") != 0 {
		t.Error("the entry is still found")
	}
	b.press("Undo")
	b.await("List bad: 1 entry back in.")
	if found("shop.example.org") != 1 {
		t.Error("the entry is not found after undoing")
	}
	b.visit("/rules")
	b.fill("#entries", "not an entry")
	b.press("Add to the list")
	b.await("line 1")
	b.complaints() // of the refusal
	b.visit("/rules")
	b.fill("#entry", "www.shop.example.org")
	b.press("Look up in all lists")
	b.await("is in the black list bad")
	b.well("lists")
}

// TestPicture makes the picture of README.md: the messages of a node that knows made-up mail. With
// BULKHEAD_PICTURES=DIR, it is in DIR.
func TestPicture(t *testing.T) {
	n := full(t)
	for i, m := range []struct{ from, text string }{
		{"Garden club <club@gardens.example>", "The minutes of the meeting are attached, with the dates of the summer " +
			"walks and the names of those who bring the tea. The next meeting is at the mill on the first of June."},
		{"Depot <notice@parcel.example>", "Your parcel waits at the depot. Pay the fee at https://parcel.example.net/pay " +
			"within two days, or it goes back to its sender, who has been told of this by letter."},
		{"Practice <desk@practice.example>", "We have moved: the practice is now opposite the station, on the second " +
			"floor. Hours are as before, and the lift is at the back of the building next to the bakery."},
		{"Ann <ann@river.example>", "Here is the long letter that I promised you, with all the news of the summer, and of " +
			"the new house that we have found near the river. Come and see it before the leaves fall."},
	} {
		for k := range 2 {
			number := 20 + 10*i + k
			message := strings.Replace(string(letter(number, m.text)), fmt.Sprintf("Shop %d <shop%[1]d@example.com>", number),
				m.from, 1)
			if _, err := n.api.CheckMessage(t.Context(), []byte(message), client.MessageOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := open(t, n.url)
	b.logIn(n)
	b.scheme("light")
	b.run(emulation.SetDeviceMetricsOverride(1280, 760, 1, false))
	b.visit("/history?q=kind:check")
	b.visit(look[string](b, `(a => a.pathname + a.search)([...document.querySelectorAll("tr[data-row]")].find(
		r => r.innerText.includes("spam")).querySelector("th a"))`))
	b.await("Evidence now")
	b.picture("console")
	b.well("the picture")
}
