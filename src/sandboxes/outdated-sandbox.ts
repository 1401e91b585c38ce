/** What is told where a folder itself cannot be worked on. Who knows better what was typed puts their own words in its place. */
export const COPY_INSTEAD = 'work on a copy: leave out --in-place'

/** The same of a sandbox that has to be made anew, by whoever it was made by. */
export const RECREATE_COMMAND = 'craik rebuild   or  craik sandbox delete ID'
