/** What is told where a folder itself cannot be worked on. Who has no such option puts their own words in its place. */
export const COPY_INSTEAD = 'work on a copy: leave out --in-place'
