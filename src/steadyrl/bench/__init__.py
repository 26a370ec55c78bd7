"""How fast an environment can be stepped here, where the time goes, and which settings that speaks for."""
