// Beside the packages themselves, so that they are found here and nowhere else.
export const load = (name) => import(name)
