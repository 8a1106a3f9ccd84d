"""jiyi (记忆): memory for LLM agents."""
