def test_the_demo_promises_storms_of_new_seasons_on_a_page(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, said = here("demo", "--seed", 0)
    assert status == 0
    rows = {line[:17].strip(): line for line in out.splitlines()}
    assert {"Promised, adapted", "Promised", "ERM"} <= set(rows)
    assert "0 of 11" in rows["ERM"]
    page = (tmp_path / "domaincover-demo.html").read_text()
    assert "Atlantic storms in new seasons" in page
    assert "domaincover fit TABLE" in said


def test_a_page_that_cannot_be_written_is_refused_before_any_work(refused, tmp_path):
    refused("cannot write the page", "demo", "--html", tmp_path)
