package ledger

import (
	"context"

	"github.com/bulkhead-mail/bulkhead"
)

// aside is the aspects that the ledger looks up, as further questions of a request.
const aside = bulkhead.Counts | bulkhead.Aside

// Read reads the balances of accounts, by one look-up, and a second one if any of them
// was deleted. On an error they are undefined.
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

// Fresh returns for each account, which must have been read, the number of its next
// delete: above those not forgotten, so that it is the last, and with nothing counted
// under it yet. It is [MaxEpochs] if there is none left.
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

// ask looks up parts of accounts, one after the other.
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
