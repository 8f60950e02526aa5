//! Times that nobody can foresee: exponentially distributed, as those between independent events are.

use super::choice::Choice;

/// Places of the table, all equally likely.
const PLACES: usize = 256;
/// Binary digits after the point.
const DIGITS: u32 = 24;

/// The mean of each part of the distribution, with mean 1; the last part goes on for ever.
static MEANS: [u32; PLACES - 1] = means();
/// Where the last part begins: ln 256.
const TAIL: u64 = fixed(ln(PLACES as f64)) as u64;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "less than 6, not negative"
)]
const fn fixed(value: f64) -> u32 {
    (value * (1u64 << DIGITS) as f64 + 0.5) as u32
}

/// The natural logarithm of a number from 2^-8 on: 2 artanh((x - 1) / (x + 1)) of what is left between 1 and
/// 2, as a series.
const fn ln(mut x: f64) -> f64 {
    let mut powers = 0.0;
    while x < 1.0 {
        x *= 2.0;
        powers -= 1.0;
    }
    while x >= 2.0 {
        x /= 2.0;
        powers += 1.0;
    }
    let y = (x - 1.0) / (x + 1.0);
    let (mut power, mut sum, mut n) = (y, 0.0, 1.0);
    while n < 40.0 {
        sum += power / n;
        power *= y * y;
        n += 2.0;
    }
    powers * core::f64::consts::LN_2 + 2.0 * sum
}

const fn means() -> [u32; PLACES - 1] {
    // -ln v for v from `low` to `high`: its integral is v - v ln v.
    let mut means = [0; PLACES - 1];
    let mut place = 0;
    while place < PLACES - 1 {
        let high = (PLACES - place) as f64 / PLACES as f64;
        let low = (PLACES - place - 1) as f64 / PLACES as f64;
        let area = (high - high * ln(high)) - (low - low * ln(low));
        means[place] = fixed(area * PLACES as f64);
        place += 1;
    }
    means
}

/// A time from the exponential distribution with that mean: one in 256 lies in the part of the table that goes
/// on for ever, and as the distribution has no memory, that is where it begins and as much again as another.
#[inline(always)]
pub(super) fn draw(choice: &mut Choice, mean: u64) -> u64 {
    let mut tail = 0;
    let multiple = loop {
        #[expect(clippy::cast_possible_truncation, reason = "a place of the table")]
        let place = choice.below(PLACES as u64) as usize;
        match MEANS.get(place) {
            Some(&multiple) => break tail + u64::from(multiple),
            None => tail += TAIL,
        }
    };
    u64::try_from((u128::from(mean) * u128::from(multiple)) >> DIGITS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::Params;

    #[test]
    fn the_table_is_of_the_exponential_distribution() {
        for x in [0.01, 0.5, 1.0, 1.5, 10.0, 256.0_f64] {
            assert!((ln(x) - x.ln()).abs() < 1e-12, "{x}");
        }
        // All parts together, the last with what it has beyond its beginning, have mean 1.
        let one = f64::from(1 << DIGITS);
        let sum: f64 = MEANS.iter().map(|&mean| f64::from(mean) / one).sum();
        let tail = (PLACES as f64).ln() + 1.0;
        assert!(((sum + tail) / PLACES as f64 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn draws_have_their_mean_and_spread_and_no_memory() {
        const N: u64 = 200_000;
        for (seed, cpu) in [(1, 0), (1, 1), (2, 7), (u64::MAX, 255)] {
            let params = Params {
                seed,
                ..Params::default()
            };
            let mut choice = Choice::new(&params, cpu);
            let (mut sum, mut squares, mut beyond) = (0.0, 0.0, [0_u64; 3]);
            for _ in 0..N {
                let x = draw(&mut choice, 130_000) as f64 / 130_000.0;
                sum += x;
                squares += x * x;
                for (limit, beyond) in (1..).zip(&mut beyond) {
                    *beyond += u64::from(x > f64::from(limit));
                }
            }
            let (mean, variance) = (
                sum / N as f64,
                squares / N as f64 - (sum / N as f64).powi(2),
            );
            assert!((mean - 1.0).abs() < 0.01, "seed {seed}: mean {mean}");
            assert!(
                (variance - 1.0).abs() < 0.05,
                "seed {seed}: variance {variance}"
            );
            for (limit, beyond) in (1..).zip(beyond) {
                let expected = f64::from(-limit).exp();
                let share = beyond as f64 / N as f64;
                assert!(
                    (share / expected - 1.0).abs() < 0.06,
                    "seed {seed}: P(> {limit}) {share}"
                );
            }
        }
    }

    #[test]
    fn vcpus_do_not_draw_in_step_and_a_seed_draws_the_same() {
        let draws = |seed, cpu| {
            let params = Params {
                seed,
                ..Params::default()
            };
            let mut choice = Choice::new(&params, cpu);
            (0..20)
                .map(|_| draw(&mut choice, 1 << 30))
                .collect::<std::vec::Vec<_>>()
        };
        assert_eq!(draws(3, 1), draws(3, 1));
        assert_ne!(draws(3, 1), draws(3, 2));
        assert_ne!(draws(3, 1), draws(4, 1));
    }
}
