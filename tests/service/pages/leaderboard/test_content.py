"""What the leaderboard page says about its rows."""

from __future__ import annotations


def test_undefined_rows_show_reasons_and_measured_rows_intervals(world, root):
    number = world.complete()
    text = root.get(f"/studies/{number}/leaderboard").text
    assert "undefined: Std_B: it has no value" in text
    assert text.count(" ± ") >= 45  # seeds that agree have none
    assert "16 of 16 rows" in text
    one_seed_id = world.complete("single", seeds=(0,))
    assert (
        "With one seed there are no confidence intervals over seeds"
        in root.get(f"/studies/{one_seed_id}/leaderboard").text
    )
