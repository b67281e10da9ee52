package verdict

import "github.com/bulkhead-mail/bulkhead"

// A Step is the operator's choice between wanted mail called spam and spam let through. 0 is the
// default; lower steps call less mail spam, higher steps more. It is [LeastStep] to [MostStep].
type Step int

// The range of a Step.
const (
	LeastStep = Step(-3)
	MostStep  = LeastStep + Step(len(steps)-1)
)

// steps are the settings of each Step, from LeastStep on. Everything in them grows looser with the
// step, so that no message that is spam at a step is not spam at a higher one.
var steps = [...]struct {
	lost float64 // wanted mails lost per 100,000 from which the step applies
	// The least weight of votes on which spam rests, of exact copies and of all other mail; 0: the
	// rules' own.
	exact, other float64
	unseen       bool // the rule unseen-sender applies
}{
	{0, threeVotes, threeVotes, false},
	{0.5, twoVotes, twoVotes, false},
	{1, 0, twoVotes, false},
	{2, 0, 0, false},
	{5, 0, 0, true},
}

// StepOf returns the step for a number of wanted mails lost per 100,000, 0 or more. A number between
// two steps means the lower one.
func StepOf(lost float64) Step {
	n := len(steps) - 1
	for n > 0 && lost < steps[n].lost {
		n--
	}
	return LeastStep + Step(n)
}

// Number returns the step's number, from 1, and the number of steps.
func (s Step) Number() (n, of int) { return int(s-LeastStep) + 1, len(steps) }

// Least returns the least weight of votes, in promotion weights, on which spam by the rule rests at
// the step; 0: the rule's own.
func (s Step) Least(r Rule) float64 {
	if r == byExactText {
		return steps[s-LeastStep].exact
	}
	return steps[s-LeastStep].other
}

// enough reports whether the votes behind a rule that calls the message spam are enough at the
// operator's step.
func (d *decision) enough(r *rule) bool {
	least := d.Policy.Step.Least(r.name)
	if r.class != bulkhead.ClassSpam || least == 0 {
		return true
	}
	votes := d.text.strength
	if d.finding >= 0 {
		votes = d.Policy.Strength(&d.Evidence[d.finding], twoVotes)
	}
	return votes >= least-slack
}

// unseen reports whether the text is a changed copy of one that a single vote lists, from a verified
// sender of whom no mail was delivered before. It decides at the highest step only.
func (d *decision) unseen() bool {
	t := &d.text
	return steps[d.Policy.Step-LeastStep].unseen && d.listed && d.Policy.Mature && !t.part() && t.good == 0 &&
		d.sender >= 0 && d.Evidence[d.sender].deliveries() == 0 && !d.lonely() && t.often()
}
