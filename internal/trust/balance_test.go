package trust

import "testing"

// TestBalance compares the balance with its rules, with a promotion weight of 100.
func TestBalance(t *testing.T) {
	for _, tt := range []struct {
		name         string
		b            Balance
		strength     int64
		lists, lifts bool
		spam, ham    int64
	}{
		{name: "nothing"},
		{name: "the least against nothing", b: Balance{Ham: 1}, strength: -1, lifts: true, ham: 1},
		{name: "a root", b: Balance{Spam: 100}, strength: 100, lists: true, spam: 100},
		{name: "less than a root", b: Balance{Spam: 99}, strength: 99, spam: 99},
		{name: "strangers alone", b: Balance{StrangerSpam: 1e6}, strength: 50, spam: 50},
		{name: "strangers help", b: Balance{Spam: 25, StrangerSpam: 1e6}, strength: 100, lists: true, spam: 100},
		{name: "strangers help too little a root", b: Balance{Spam: 24, StrangerSpam: 1e6}, strength: 98, spam: 98},
		{name: "strangers against", b: Balance{Spam: 100, StrangerHam: 1e6}, strength: 75, lists: true, spam: 100, ham: 25},
		{name: "strangers on both sides", b: Balance{Spam: 50, StrangerSpam: 90, StrangerHam: 40}, strength: 100,
			lists: true, spam: 100},
		{name: "a root against", b: Balance{Spam: 100, Ham: 100}, lifts: true, spam: 100, ham: 100},
		{name: "a root against, strangers for", b: Balance{Spam: 100, Ham: 100, StrangerSpam: 1e6}, strength: 50,
			lifts: true, spam: 150, ham: 100},
		{name: "a root against strangers", b: Balance{Ham: 100, StrangerSpam: 1e6}, strength: -50, lifts: true,
			spam: 50, ham: 100},
		{name: "one more for", b: Balance{Spam: 1100, Ham: 1000}, strength: 100, lists: true, spam: 1100, ham: 1000},
		{name: "nearly as much against", b: Balance{Spam: 1000, Ham: 999}, strength: 1, spam: 1000, ham: 999},
	} {
		if got := tt.b.Strength(100); got != tt.strength {
			t.Errorf("%s: strength %d, want %d", tt.name, got, tt.strength)
		}
		if spam, ham := tt.b.Heard(100); spam != tt.spam || ham != tt.ham {
			t.Errorf("%s: heard %d and %d, want %d and %d", tt.name, spam, ham, tt.spam, tt.ham)
		}
		if got := tt.b.Lists(100); got != tt.lists {
			t.Errorf("%s: lists %v", tt.name, got)
		}
		if got := tt.b.Lifts(); got != tt.lifts {
			t.Errorf("%s: lifts %v", tt.name, got)
		}
	}
}
