# Scores and learns messages with SpamAssassin's Bayes classifier: spamassassin.pl FOLDER.
# Each line is "check FILE", "spam FILE" or "ham FILE". The answer is a line: the probability, or "-".
use strict;
use warnings;
use Mail::SpamAssassin;

my ($dir) = @ARGV;
my $sa = Mail::SpamAssassin->new({
	rules_filename => $dir, site_rules_filename => $dir, userprefs_filename => "$dir/user_prefs",
	userstate_dir => $dir, dont_copy_prefs => 1, local_tests_only => 1,
});
$sa->init(1);
$| = 1;
while (<STDIN>) {
	chomp;
	my ($what, $file) = split / /, $_, 2;
	open my $in, '<', $file or die "$file: $!";
	my @lines = <$in>;
	close $in;
	my $mail = $sa->parse(\@lines, 1);
	my $score = '-';
	my $status;
	if ($what eq 'check') {
		$status = $sa->check($mail);
		$score = $status->{bayes_score} if defined $status->{bayes_score};
	} else {
		$status = $sa->learn($mail, undef, $what eq 'spam', 0);
	}
	$status->finish;
	$mail->finish;
	print "$score\n";
}
