package ledger

import (
	"context"

	"github.com/bulkhead-mail/bulkhead"
)

// aside is the aspects that the ledger looks up, as further questions of the same request.
const aside = bulkhead.Counts | bulkhead.Aside

// Read reads the balances of accounts with one look-up, and with a second one if any account was
// deleted. On an error the balances are undefined.
func Read(ctx context.Context, house bulkhead.Counter, accounts []*Account) error {
	looks, err := ask(ctx, house, accounts, func(a *Account) []Part {
		return []Part{{Kind: Added}, {Kind: Taken}, {Kind: Deletes}}
	})
	if err != nil {
		return err
	}
	for i, a := range accounts {
		a.Balance = Balance{Added: looks[3*i].Sightings, Taken: looks[3*i+1].Sightings, Deletes: looks[3*i+2].Sightings}
	}
	looks, err = ask(ctx, house, accounts, func(a *Account) []Part {
		if a.Deletes == 0 {
			return nil
		}
		return []Part{a.Since(AddedSince), a.Since(TakenSince)}
	})
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if a.Deletes > 0 {
			a.AddedSince, a.TakenSince = looks[0].Sightings, looks[1].Sightings
			looks = looks[2:]
		}
	}
	return nil
}

// Fresh returns the number of the next delete of each account, which must have been read. The
// number is higher than any that is not forgotten, so that the new delete is the last one, and
// nothing is counted under it yet. It is [MaxEpochs] if no number is left.
func Fresh(ctx context.Context, house bulkhead.Counter, accounts []*Account) ([]int, error) {
	looks, err := ask(ctx, house, accounts, func(a *Account) (parts []Part) {
		for epoch := a.nextEpoch(); epoch < MaxEpochs; epoch++ {
			parts = append(parts, Part{Kind: AddedSince, Epoch: uint8(epoch)})
		}
		return parts
	})
	if err != nil {
		return nil, err
	}
	fresh := make([]int, len(accounts))
	for i, a := range accounts {
		fresh[i] = MaxEpochs
		for epoch := MaxEpochs - 1; epoch >= a.nextEpoch(); epoch-- {
			if looks[epoch-a.nextEpoch()].Sightings == 0 {
				fresh[i] = epoch
			}
		}
		looks = looks[max(0, MaxEpochs-a.nextEpoch()):]
	}
	return fresh, nil
}

// ask looks up the parts of all accounts, one account after the other.
func ask(ctx context.Context, house bulkhead.Counter, accounts []*Account,
	parts func(*Account) []Part) ([]bulkhead.Look, error) {
	var sigs []bulkhead.Signature
	for _, a := range accounts {
		for _, p := range parts(a) {
			sigs = append(sigs, a.Name(p))
		}
	}
	looks := make([]bulkhead.Look, len(sigs))
	if len(sigs) == 0 {
		return looks, nil
	}
	return looks, house.Look(ctx, sigs, looks, aside)
}
