package attack

import "testing"

// TestAttack: accounts for whom nobody vouches list no newsletter, however many and
// of however many networks, whether subscribers object or not. They can help who is
// trusted to a mistake, and not alone.
func TestAttack(t *testing.T) {
	least := map[string]int{"a network each, a trusted reporter is mistaken": 1} // all others: none
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			r, err := Run(t.Context(), s, 1000)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d accounts list it", r.Accounts, r.Limit)
			switch want := least[s.Name]; {
			case want == 0 && r.Accounts != 0:
				t.Errorf("%d accounts were enough, want none to be", r.Accounts)
			case want != 0 && (r.Accounts <= want):
				t.Errorf("%d accounts were enough, want more than %d, and some: else nothing was measured", r.Accounts, want)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for _, limit := range []int{0, -1, MaxAccounts + 1} {
		if _, err := Run(t.Context(), Scenario{}, limit); err == nil {
			t.Errorf("%d accounts: no error", limit)
		}
	}
}
