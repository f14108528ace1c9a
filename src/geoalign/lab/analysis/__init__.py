"""The numbers that terminal, report and comparison show, each defined once: intervals, detection, differences."""
