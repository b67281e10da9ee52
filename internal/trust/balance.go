package trust

// A Balance holds the weights of the latest votes on one signature, all in the unit of the
// promotion weight. A root is a voice whose weight an administrator gave, see [Standing].Root; all
// others are strangers, however much they have earned.
type Balance struct {
	Spam, Ham                 int64 // of roots
	StrangerSpam, StrangerHam int64 // of all others
}

// Strength returns the weight for spam less the weight against it, given the promotion weight.
// Strangers add at most the lead of the roots for spam and at most half the promotion weight, so
// that they never reach it alone. They take away at most a quarter of the lead of the roots.
func (b Balance) Strength(promotion int64) int64 {
	spam, ham := b.Heard(promotion)
	return spam - ham
}

// Heard returns the two weights, for spam and against it, whose difference is [Balance.Strength].
func (b Balance) Heard(promotion int64) (spam, ham int64) {
	ahead := max(0, b.Spam-b.Ham)
	strangers := b.StrangerSpam - b.StrangerHam
	spam = b.Spam + min(max(0, strangers), ahead+promotion/2)
	ham = b.Ham + min(max(0, -strangers), ahead/4)
	return spam, ham
}

// Lists reports whether the balance lists a signature that is not listed: by the roots alone,
// whatever strangers vote, or by roots with the help of strangers.
func (b Balance) Lists(promotion int64) bool {
	return max(b.Spam-b.Ham, b.Strength(promotion)) >= promotion
}

// Lifts reports whether the balance delists a signature that is listed: the weight of roots against
// it is above zero and at least their weight for it.
func (b Balance) Lifts() bool { return b.Ham > 0 && b.Spam <= b.Ham }
