"""Java's SslPrincipalMapperTest, and what it does not say."""

from __future__ import annotations

import pytest

from pyproducer.broker.network.ssl_principal_mapper import SslPrincipalMapper
from pyproducer.common.errors import ConfigError

RULES = ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L , "
         "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT")


@pytest.mark.parametrize(("subject", "name"), [
    ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
    ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
    ("cn=duke,ou=sme,o=mycp,l=fulton,st=md,c=us", "DUKE"),
    ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems")])
def test_subject_when_a_rule_matches_then_the_first_one_names_it(subject: str, name: str) -> None:
    assert SslPrincipalMapper(RULES).name_of(subject) == name


def test_subject_when_no_rule_matches_then_it_has_no_name() -> None:
    assert SslPrincipalMapper("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/").name_of("CN=Duke") is None


def test_rule_when_it_names_no_group_of_its_pattern_then_all_that_match_have_one_name() -> None:
    mapper = SslPrincipalMapper("RULE:^CN=.*,OU=Admins$/admin/U")
    assert mapper.name_of("CN=Duke,OU=Admins") == mapper.name_of("CN=Java,OU=Admins") == "ADMIN"


def test_rule_when_a_slash_or_a_comma_is_in_it_then_it_is_read() -> None:
    assert SslPrincipalMapper(r"RULE:^CN=([^,\/]*),O=a\/b$/$1,x/").name_of("CN=Duke,O=a/b") == "Duke,x"


@pytest.mark.parametrize("rules", ["DEFAUL", "RULE:CN=(.*?)/$1", "RULE:^CN=(.*?,.*$/$1/L", "RULE:CN=(.*)/$2/",
                                   "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/X", "DEFAULT RULE:a/b/"])
def test_rules_when_they_are_none_then_they_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SslPrincipalMapper(rules)
    assert raised.value.key == "ssl.principal.mapping.rules"
