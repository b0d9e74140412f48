"""Sign in to the pages."""

from __future__ import annotations

from tests.support.service_world import HTML_HEADERS


def test_sign_in_redirects_to_the_requested_page(world):
    anonymous = world.client(None, **HTML_HEADERS)
    response = anonymous.get("/studies/3/leaderboard?sort=test_loss", follow_redirects=False)
    assert response.status_code == 303
    assert response.headers["location"] == "/?next=%2Fstudies%2F3%2Fleaderboard%3Fsort%3Dtest_loss"
    assert anonymous.get("/signed-in").json() is False
    assert anonymous.get("/api/v1/studies", headers=HTML_HEADERS).status_code == 401


def test_wrong_sessions_are_rate_limited(world):
    anonymous = world.client(None)
    codes = [
        anonymous.get("/signed-in", headers={"Cookie": "bln_search_session=wrong"}).status_code for _ in range(150)
    ]
    assert codes.count(200) == 100
    assert set(codes[100:]) == {429}
