"""The models behind the processors, one small adapter a file, chosen by setting. Every answer names its model."""
