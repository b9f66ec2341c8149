from results.report import style


def test_a_dollar_in_a_name_is_a_dollar():
    with style.styled():
        figure = style.blank(1.0)
        axes = figure.subplots()
        axes.set_title("p0:$\\frac{ and $x")
        axes.set_xlabel("$\\undefined$")
        drawn = style.drawn("x", "x", "", figure)
    assert "p0:$\\frac{ and $x" in drawn.svg
